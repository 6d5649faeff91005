// Names of fields as in Intel's manual, volume 2: 2.1 (ModRM, SIB, REX), 2.3 (VEX), 2.7 (EVEX).
#include "x86.h"

namespace skinny::jit {
namespace {

constexpr uint8_t low(uint8_t number) { return number & 7; }
constexpr unsigned bit(uint8_t number, int which) { return number >> which & 1u; }
constexpr uint8_t number(Reg reg) { return static_cast<uint8_t>(reg); }

}  // namespace

void Assembler::dword(int32_t value) {
  for (int shift = 0; shift < 32; shift += 8) byte(static_cast<uint32_t>(value) >> shift & 255);
}

void Assembler::rex(bool wide, uint8_t reg, uint8_t index, uint8_t base) {
  byte(0x40u | static_cast<unsigned>(wide) << 3 | bit(reg, 3) << 2 | bit(index, 3) << 1 |
       bit(base, 3));
}

void Assembler::address(uint8_t reg, const Address& a, int32_t unit) {
  uint8_t base = number(a.base);
  bool sib = a.scale || low(base) == 4;  // rsp and r12 as a base need one
  // rbp and r13 have no form without a displacement.
  bool nothing = a.disp == 0 && low(base) != 5;
  int32_t units = a.disp / unit;
  bool shorter = a.disp % unit == 0 && units >= -128 && units < 128;
  unsigned mod = nothing ? 0 : shorter ? 1 : 2;
  byte(mod << 6 | static_cast<unsigned>(low(reg)) << 3 | (sib ? 4u : low(base)));
  if (sib) {
    unsigned log2 = a.scale == 8 ? 3 : a.scale == 4 ? 2 : a.scale == 2 ? 1 : 0;
    byte(log2 << 6 | static_cast<unsigned>(low(number(a.index))) << 3 | low(base));
  }
  if (mod == 1) byte(static_cast<uint32_t>(units) & 255);
  if (mod == 2) dword(a.disp);
}

void Assembler::mov(Reg to, Reg from) {
  rex(true, number(from), 0, number(to));
  byte(0x89);
  byte(0xC0u | static_cast<unsigned>(low(number(from))) << 3 | low(number(to)));
}

void Assembler::add(Reg to, Reg from) {
  rex(true, number(from), 0, number(to));
  byte(0x01);
  byte(0xC0u | static_cast<unsigned>(low(number(from))) << 3 | low(number(to)));
}

void Assembler::add(Reg to, int32_t value) {
  bool shorter = value >= -128 && value < 128;
  rex(true, 0, 0, number(to));
  byte(shorter ? 0x83 : 0x81);
  byte(0xC0u | low(number(to)));
  if (shorter)
    byte(static_cast<uint32_t>(value) & 255);
  else
    dword(value);
}

void Assembler::lea(Reg to, const Address& a) {
  rex(true, number(to), a.scale ? number(a.index) : 0, number(a.base));
  byte(0x8D);
  address(number(to), a, 1);
}

void Assembler::mov(Reg to, const Address& a) {
  rex(true, number(to), a.scale ? number(a.index) : 0, number(a.base));
  byte(0x8B);
  address(number(to), a, 1);
}

void Assembler::prefetch(uint8_t opcode, uint8_t hint, const Address& a) {
  rex(false, 0, a.scale ? number(a.index) : 0, number(a.base));
  byte(0x0F);
  byte(opcode);
  address(hint, a, 1);
}

void Assembler::prefetcht0(const Address& a) { prefetch(0x18, 1, a); }
void Assembler::prefetcht1(const Address& a) { prefetch(0x18, 2, a); }
void Assembler::prefetchw(const Address& a) { prefetch(0x0D, 1, a); }

void Assembler::jnz(size_t target) {
  byte(0x0F);
  byte(0x85);
  dword(static_cast<int32_t>(static_cast<ptrdiff_t>(target) - static_cast<ptrdiff_t>(size() + 4)));
}

void Assembler::align(size_t unit) {
  while (size() % unit) byte(0xCC);
}

void Assembler::vzeroupper() {
  byte(0xC5);
  byte(0xF8);
  byte(0x77);
}

void Assembler::ret() { byte(0xC3); }

// index and base: extensions of the SIB's and of ModRM.rm's registers, the latter's bit 4 in
// `index` for a vector register.
void Assembler::prefix(const Operation& operation, uint8_t reg, uint8_t second, uint8_t index,
                       uint8_t base, bool broadcast) {
  unsigned r = bit(reg, 3) ^ 1, x = bit(index, 3) ^ 1, b = bit(base, 3) ^ 1;
  unsigned vvvv = ~static_cast<unsigned>(second) & 15;
  if (wide_) {
    byte(0x62);
    byte(r << 7 | x << 6 | b << 5 | (bit(reg, 4) ^ 1) << 4 | operation.map);
    byte(vvvv << 3 | 4u | operation.prefix);
    byte(2u << 5 | static_cast<unsigned>(broadcast) << 4 | (bit(second, 4) ^ 1) << 3);
  } else if (operation.map == 1 && x && b) {
    byte(0xC5);
    byte(r << 7 | vvvv << 3 | 4u | operation.prefix);
  } else {
    byte(0xC4);
    byte(r << 7 | x << 6 | b << 5 | operation.map);
    byte(vvvv << 3 | 4u | operation.prefix);
  }
  byte(operation.opcode);
}

void Assembler::vector(const Operation& operation, Vector reg, Vector second, Vector third) {
  auto index = static_cast<uint8_t>(bit(third.number, 4) << 3);
  prefix(operation, reg.number, second.number, index, third.number, false);
  byte(0xC0u | static_cast<unsigned>(low(reg.number)) << 3 | low(third.number));
}

void Assembler::vector(const Operation& operation, Vector reg, Vector second, const Address& from,
                       int32_t unit, bool broadcast) {
  prefix(operation, reg.number, second.number, from.scale ? number(from.index) : 0,
         number(from.base), broadcast);
  address(reg.number, from, wide_ ? unit : 1);
}

void Assembler::vmovups(Vector to, const Address& from) {
  vector({1, 0, 0x10}, to, none, from, vector_bytes());
}

void Assembler::vmovups(const Address& to, Vector from) {
  vector({1, 0, 0x11}, from, none, to, vector_bytes());
}

void Assembler::vmovaps(Vector to, Vector from) { vector({1, 0, 0x28}, to, none, from); }

void Assembler::vbroadcastss(Vector to, const Address& from) {
  vector({2, 1, 0x18}, to, none, from, sizeof(float));
}

void Assembler::vbroadcastf128(Vector to, const Address& from) {
  vector({2, 1, 0x1A}, to, none, from, 4 * sizeof(float));
}

void Assembler::vpermilps(Vector to, Vector from, unsigned number) {
  vector({3, 1, 0x04}, to, none, from);
  byte(number * 0x55);
}

void Assembler::vaddps(Vector to, Vector a, const Address& b) {
  vector({1, 0, 0x58}, to, a, b, vector_bytes());
}

void Assembler::vmaxps(Vector to, Vector a, Vector b) { vector({1, 0, 0x5F}, to, a, b); }
void Assembler::vminps(Vector to, Vector a, Vector b) { vector({1, 0, 0x5D}, to, a, b); }
void Assembler::vfmadd231ps(Vector sum, Vector a, Vector b) { vector({2, 1, 0xB8}, sum, a, b); }

void Assembler::vfmadd231ps(Vector sum, Vector a, const Address& b) {
  vector({2, 1, 0xB8}, sum, a, b, vector_bytes());
}

void Assembler::vfmadd231ps_broadcast(Vector sum, Vector a, const Address& b) {
  vector({2, 1, 0xB8}, sum, a, b, sizeof(float), true);
}

void Assembler::vinserti32x8_upper(Vector to, Vector a, const Address& upper) {
  vector({3, 1, 0x3A}, to, a, upper, vector_bytes() / 2);
  byte(1);
}

void Assembler::vpdpbusd_broadcast(Vector sum, Vector a, const Address& b) {
  vector({2, 1, 0x50}, sum, a, b, sizeof(int32_t), true);
}

void Assembler::vaddps_broadcast(Vector to, Vector a, const Address& b) {
  vector({1, 0, 0x58}, to, a, b, sizeof(float), true);
}

void Assembler::vmulps_broadcast(Vector to, Vector a, const Address& b) {
  vector({1, 0, 0x59}, to, a, b, sizeof(float), true);
}

void Assembler::vmulps(Vector to, Vector a, Vector b) { vector({1, 0, 0x59}, to, a, b); }
void Assembler::vcvtdq2ps(Vector to, Vector from) { vector({1, 0, 0x5B}, to, none, from); }
void Assembler::vcvtps2dq(Vector to, Vector from) { vector({1, 1, 0x5B}, to, none, from); }
void Assembler::vpackssdw(Vector to, Vector a, Vector b) { vector({1, 1, 0x6B}, to, a, b); }
void Assembler::vpackuswb(Vector to, Vector a, Vector b) { vector({1, 1, 0x67}, to, a, b); }
void Assembler::vpaddsw(Vector to, Vector a, Vector b) { vector({1, 1, 0xED}, to, a, b); }
void Assembler::vpshufb(Vector to, Vector a, Vector from) { vector({2, 1, 0x00}, to, a, from); }

}  // namespace skinny::jit
