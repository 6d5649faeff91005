// The few x86-64 instructions that generated kernels are made of, as bytes.
//
// Vector instructions are of one width: 256 bits, encoded by VEX prefixes (AVX2 and FMA), or 512
// bits, by EVEX prefixes (AVX-512F). Operands are in Intel's order, the destination first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace skinny::jit {

enum class Reg : uint8_t {
  rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
};

// A vector register: ymm0 to ymm15, or zmm0 to zmm31.
struct Vector {
  uint8_t number;
};

// [base + disp], or [base + index * scale + disp] where scale is 1, 2, 4 or 8.
struct Address {
  Reg base;
  int32_t disp = 0;
  Reg index = Reg::rsp;  // which cannot be an index
  uint8_t scale = 0;     // 0: no index
};

enum class Width { bits256, bits512 };

class Assembler {
 public:
  explicit Assembler(Width width) : wide_(width == Width::bits512) {}

  const std::vector<uint8_t>& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  // The distance of displacements that take one byte where `unit` is the size of what is read.
  int32_t short_reach(int32_t unit) const { return 128 * (wide_ ? unit : 1); }

  void mov(Reg to, Reg from);
  void add(Reg to, Reg from);
  void add(Reg to, int32_t value);
  void lea(Reg to, const Address& address);
  void jnz(size_t target);  // a position in bytes() before this one
  void mov(Reg to, const Address& from);
  void align(size_t unit);  // by breakpoints, which nothing reaches
  void prefetcht0(const Address& from);  // into the first-level cache
  void prefetcht1(const Address& from);  // into the second-level cache
  void prefetchw(const Address& to);     // to be written; not all processors with AVX2 have it
  void vzeroupper();
  void ret();

  void vmovups(Vector to, const Address& from);
  void vmovups(const Address& to, Vector from);
  void vmovaps(Vector to, Vector from);
  void vbroadcastss(Vector to, const Address& from);
  void vbroadcastf128(Vector to, const Address& from);  // four floats, twice; 256 bits only
  // In each 128 bits, the float of this number in all places.
  void vpermilps(Vector to, Vector from, unsigned number);
  void vaddps(Vector to, Vector a, const Address& b);
  void vmaxps(Vector to, Vector a, Vector b);  // b where either is NaN
  void vminps(Vector to, Vector a, Vector b);
  void vfmadd231ps(Vector sum, Vector a, Vector b);  // sum += a * b
  void vfmadd231ps(Vector sum, Vector a, const Address& b);
  // The same with one float of memory for all lanes, {1to16}; 512 bits only.
  void vfmadd231ps_broadcast(Vector sum, Vector a, const Address& b);
  // The lower half of a, and 256 bits of memory above it; 512 bits only.
  void vinserti32x8_upper(Vector to, Vector a, const Address& upper);
  // sum += four products of a's unsigned and b's signed bytes, b being the same for all lanes.
  void vpdpbusd_broadcast(Vector sum, Vector a, const Address& b);
  void vaddps_broadcast(Vector to, Vector a, const Address& b);  // 512 bits only, as the next
  void vmulps_broadcast(Vector to, Vector a, const Address& b);
  void vmulps(Vector to, Vector a, Vector b);
  void vcvtdq2ps(Vector to, Vector from);  // floats from integers, and
  void vcvtps2dq(Vector to, Vector from);  // integers from floats
  // Integers of half the bits, in each 128 bits those of a first: signed 16 of 32, unsigned 8 of 16.
  void vpackssdw(Vector to, Vector a, Vector b);
  void vpackuswb(Vector to, Vector a, Vector b);
  void vpaddsw(Vector to, Vector a, Vector b);
  void vpshufb(Vector to, Vector a, Vector from);

 private:
  struct Operation {
    uint8_t map;     // of opcodes: 1 is 0F, 2 is 0F38, 3 is 0F3A
    uint8_t prefix;  // that is implied: 0 is none, 1 is 66
    uint8_t opcode;
  };
  void byte(unsigned value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void dword(int32_t value);
  void rex(bool wide, uint8_t reg, uint8_t index, uint8_t base);
  // ModRM, SIB and displacement; a displacement of one byte counts in units of `unit` bytes.
  void address(uint8_t reg, const Address& address, int32_t unit);
  void prefetch(uint8_t opcode, uint8_t hint, const Address& address);
  void prefix(const Operation& operation, uint8_t reg, uint8_t second, uint8_t index, uint8_t base,
              bool broadcast);
  void vector(const Operation& operation, Vector reg, Vector second, Vector third);
  void vector(const Operation& operation, Vector reg, Vector second, const Address& from,
              int32_t unit, bool broadcast = false);
  int32_t vector_bytes() const { return wide_ ? 64 : 32; }

  static constexpr Vector none{0};  // in place of a second operand
  bool wide_;
  std::vector<uint8_t> bytes_;
};

}  // namespace skinny::jit
