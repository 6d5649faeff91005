#include "int8_code.h"

#include <algorithm>

#include "x86.h"

namespace skinny::jit {
namespace {

constexpr size_t vpdpbusd_bytes = 7, load_bytes = 10, insert_bytes = 12;
constexpr size_t chunk_bytes = 14 << 10;  // of code that is run for all vectors, in the first cache
constexpr Vector input{31};

Vector sum(size_t row) { return {static_cast<uint8_t>(row)}; }

}  // namespace

class Int8Generator {
 public:
  Int8Generator(const std::vector<int32_t>& offsets, int32_t gap) : offsets_(offsets), gap_(gap) {}

  std::vector<Int8Code::Chunk> add(const Int8Weights::Block& block) {
    std::vector<Int8Code::Chunk> chunks;
    size_t tap = 0, quad = 0;
    do {
      size_t end = tap, bytes = 0;
      for (; end < block.rows.size() && bytes < chunk_bytes; ++end)
        bytes += load_bytes + (gap_ ? insert_bytes : 0) +
                 vpdpbusd_bytes * static_cast<size_t>(__builtin_popcount(block.rows[end]));
      code_.align(64);
      size_t code = code_.size(), count = chunk(block, tap, end);
      chunks.push_back({code, quad, quad + count, value_of(block, quad / 16 * 16)});
      quad += count;
      tap = end;
    } while (tap < block.rows.size());
    return chunks;
  }

  const std::vector<uint8_t>& code() const { return code_.bytes(); }

 private:
  static constexpr Reg in = Reg::rdi, count = Reg::rsi, sums = Reg::rdx, quads = Reg::rcx,
                       start = Reg::r8, cells = Reg::r9, near = Reg::r10;

  // How many values are before those of a quad.
  static size_t value_of(const Int8Weights::Block& block, size_t quad) {
    size_t value = 0;
    for (size_t i = 0; block.packed() && i < quad / 2; ++i)
      value += static_cast<size_t>(__builtin_popcount(block.bits[i]));
    return value;
  }

  // void(const float* const* in, size_t vectors, int32_t* sums, const int32_t* quads,
  //      const int32_t* start); returns how many quads it reads
  size_t chunk(const Int8Weights::Block& block, size_t begin, size_t end) {
    size_t rows = block.start.size();
    read_ = 0;
    size_t loop = code_.size();
    code_.mov(cells, Address{in});
    base_ = reach;
    code_.lea(near, {quads, reach});
    for (size_t row = 0; row < rows; ++row) {
      if (begin == 0)
        code_.vbroadcastss(sum(row), {start, static_cast<int32_t>(4 * row)});
      else
        code_.vmovups(sum(row), {sums, static_cast<int32_t>(64 * row)});
    }
    for (size_t tap = begin; tap < end; ++tap) {
      if (block.rows[tap] == 0) continue;
      int32_t at = 4 * offsets_[block.first_tap + tap];
      code_.vmovups(input, {cells, at});
      if (gap_) code_.vinserti32x8_upper(input, input, {cells, at + 32 + 4 * gap_});
      for (uint32_t left = block.rows[tap]; left; left &= left - 1)
        code_.vpdpbusd_broadcast(sum(static_cast<size_t>(__builtin_ctz(left))), input, next());
    }
    for (size_t row = 0; row < rows; ++row)
      code_.vmovups({sums, static_cast<int32_t>(64 * row)}, sum(row));
    code_.add(in, 8);
    code_.add(sums, static_cast<int32_t>(64 * rows));
    code_.add(count, -1);
    code_.jnz(loop);
    code_.vzeroupper();
    code_.ret();
    return read_;
  }

  // The address of the next quad; `near` moves on, so that displacements are short.
  Address next() {
    auto at = static_cast<int32_t>(4 * read_++);
    if (at - base_ >= reach) {
      base_ = at + reach;
      code_.lea(near, {quads, base_});
    }
    return {near, at - base_};
  }

  static constexpr int32_t reach = 512;  // bytes: 128 displacements of four bytes
  const std::vector<int32_t>& offsets_;
  int32_t gap_;
  Assembler code_{Width::bits512};
  size_t read_ = 0;  // quads of a chunk
  int32_t base_ = 0;
};

size_t Int8Code::estimate(const Int8Weights& weights) {
  size_t bytes = vpdpbusd_bytes * weights.quads();
  for (const Int8Weights::Block& block : weights.blocks()) bytes += load_bytes * block.rows.size();
  return bytes;
}

std::unique_ptr<const Int8Code> Int8Code::make(const Int8Weights& weights,
                                               const std::vector<int32_t>& offsets, int32_t gap,
                                               size_t most) {
  if (!weights.by_tap()) return nullptr;
  if (weights.quads() * (vpdpbusd_bytes + load_bytes + insert_bytes) > most) return nullptr;
  if (*std::max_element(offsets.begin(), offsets.end()) >= (1 << 29) - gap - 8) return nullptr;
  Int8Generator generator(offsets, gap);
  std::vector<std::vector<Chunk>> blocks;
  for (const Int8Weights::Block& block : weights.blocks()) blocks.push_back(generator.add(block));
  std::optional<Executable> code = Executable::make(generator.code());
  if (!code) return nullptr;
  return std::unique_ptr<const Int8Code>(new Int8Code(std::move(*code), std::move(blocks)));
}

void Int8Code::run(size_t block, const Int8Weights& weights, const float* const* in,
                   size_t vectors, int32_t* sums, int32_t* quads) const {
  using Function =
      void (*)(const float* const*, size_t, int32_t*, const int32_t*, const int32_t*);
  const Int8Weights::Block& own = weights.blocks()[block];
  for (const Chunk& chunk : blocks_[block]) {
    const int32_t* from = own.quads.data() + chunk.quad;
    if (own.packed()) {
      size_t first = chunk.quad / 16 * 16;
      own.expand(first, chunk.end, chunk.value, quads);
      from = quads + (chunk.quad - first);
    }
    reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data() + chunk.code))(
        in, vectors, sums, from, own.start.data());
  }
}

}  // namespace skinny::jit
