#include "int8_code.h"

#include <algorithm>
#include <cstddef>

#include "x86.h"

namespace skinny::jit {
namespace {

constexpr size_t vpdpbusd_bytes = 7, load_bytes = 10, insert_bytes = 12;
constexpr size_t row_bytes = 64;  // at most, of the first and last instructions on a row's sums
// Code is run for all vectors of a strip before the next, from the second-level cache: it is read in
// its order, faster than it multiplies. Sums go to memory and back between two pieces.
constexpr size_t chunk_bytes = 64 << 10;
constexpr Vector input{31};
constexpr size_t last_taps = 1 + Int8EndingCode::first_register - int8_block;

Vector sum(size_t row) { return {static_cast<uint8_t>(row)}; }

}  // namespace

class Int8Generator {
 public:
  Int8Generator(const std::vector<int32_t>& offsets, int32_t gap,
                const std::optional<Int8Ending>& ending)
      : offsets_(offsets), gap_(gap), ending_(ending) {}

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
  static constexpr Reg strip = Reg::rdi, count = Reg::rsi, sums = Reg::rdx, quads = Reg::rcx,
                       start = Reg::r8, constants = Reg::r9, cells = Reg::r10, near = Reg::r11,
                       stride = Reg::rax;

  // How many values are before those of a quad.
  static size_t value_of(const Int8Weights::Block& block, size_t quad) {
    size_t value = 0;
    for (size_t i = 0; block.packed() && i < quad / 2; ++i)
      value += static_cast<size_t>(__builtin_popcount(block.bits[i]));
    return value;
  }

  // void(const Int8Strip*, size_t vectors, int32_t* sums, const int32_t* quads,
  //      const int32_t* start, const Int8Constants*); returns how many quads it reads
  size_t chunk(const Int8Weights::Block& block, size_t begin, size_t end) {
    size_t rows = block.start.size();
    bool ends = ending_ && end == block.rows.size();
    size_t last = ends ? first_of_last(block, begin, end) : end;
    read_ = 0;
    if (ends) ending_code().load_constants();
    size_t loop = code_.size();
    code_.mov(cells, Address{strip});
    base_ = reach;
    code_.lea(near, {quads, reach});
    for (size_t row = 0; row < rows; ++row) {
      if (begin == 0)
        code_.vbroadcastss(sum(row), {start, static_cast<int32_t>(4 * row)});
      else
        code_.vmovups(sum(row), {sums, static_cast<int32_t>(64 * row)});
    }
    for (size_t tap = begin; tap < last; ++tap) {
      if (block.rows[tap] == 0) continue;
      load(input, block.first_tap + tap);
      for (uint32_t left = block.rows[tap]; left; left &= left - 1)
        code_.vpdpbusd_broadcast(sum(static_cast<size_t>(__builtin_ctz(left))), input, next());
    }
    if (ends) {
      finish(block, last, end);
    } else {
      for (size_t row = 0; row < rows; ++row)
        code_.vmovups({sums, static_cast<int32_t>(64 * row)}, sum(row));
    }
    code_.add(strip, 8);
    code_.add(sums, static_cast<int32_t>(64 * rows));
    code_.add(count, -1);
    code_.jnz(loop);
    code_.vzeroupper();
    code_.ret();
    return read_;
  }

  void load(Vector to, size_t tap) {
    int32_t at = 4 * offsets_[tap];
    code_.vmovups(to, {cells, at});
    if (gap_) code_.vinserti32x8_upper(to, to, {cells, at + 32 + 4 * gap_});
  }

  // The first of the last taps with a quad, whose inputs are in registers at the same time.
  static size_t first_of_last(const Int8Weights::Block& block, size_t begin, size_t end) {
    for (size_t found = 0; end > begin; --end)
      if (block.rows[end - 1] && found++ == last_taps) break;
    return end;
  }

  // The last taps four rows after the other, and the ending of these, so that the processor
  // multiplies for the next four rows meanwhile.
  void finish(const Int8Weights::Block& block, size_t begin, size_t end) {
    struct Tap {
      Vector input;
      uint32_t rows;
      int32_t at;  // of its next quad, from `near`
    };
    std::vector<Tap> taps;
    code_.lea(near, {quads, static_cast<int32_t>(4 * read_) + reach});
    int32_t at = -reach;
    for (size_t tap = begin; tap < end; ++tap)
      if (uint32_t rows = block.rows[tap]) {
        Vector to = taps.empty() ? input : sum(int8_block + taps.size() - 1);
        load(to, block.first_tap + tap);
        taps.push_back({to, rows, at});
        at += 4 * __builtin_popcount(rows);
      }
    read_ += static_cast<size_t>(at + reach) / 4;
    code_.mov(cells, {strip, offsetof(Int8Strip, to)});
    code_.mov(stride, {strip, offsetof(Int8Strip, stride)});
    for (size_t row = 0; row < block.start.size(); row += 4) {
      size_t four = std::min(block.start.size(), row + 4);
      for (Tap& tap : taps)
        for (size_t i = row; i < four; ++i)
          if (tap.rows >> i & 1) {
            code_.vpdpbusd_broadcast(sum(i), tap.input, {near, tap.at});
            tap.at += 4;
          }
      for (size_t i = row; i < four; i += ending_->rows_at_once()) ending_code().store(i);
    }
  }

  Int8EndingCode ending_code() { return {code_, *ending_, constants, cells, stride}; }

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
  std::optional<Int8Ending> ending_;
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
                                               const std::optional<Int8Ending>& ending,
                                               size_t most, CodeWriter& writer) {
  if (!weights.by_tap()) return nullptr;
  if (weights.quads() * (vpdpbusd_bytes + load_bytes + insert_bytes) +
          weights.outputs() * row_bytes > most)
    return nullptr;
  if (*std::max_element(offsets.begin(), offsets.end()) >= (1 << 29) - gap - 8) return nullptr;
  Int8Generator generator(offsets, gap, ending);
  std::vector<std::vector<Chunk>> blocks;
  for (const Int8Weights::Block& block : weights.blocks()) blocks.push_back(generator.add(block));
  std::optional<Executable> code = writer.add(generator.code());
  if (!code) return nullptr;
  std::vector<Int8Constants> constants;
  for (size_t block = 0; ending && block < blocks.size(); ++block)
    constants.emplace_back(*ending, weights, block);
  return std::unique_ptr<const Int8Code>(
      new Int8Code(std::move(*code), std::move(blocks), std::move(constants)));
}

void Int8Code::run(size_t block, const Int8Weights& weights, const Int8Strip& strip,
                   size_t vectors, int32_t* sums, int32_t* quads) const {
  using Function = void (*)(const Int8Strip*, size_t, int32_t*, const int32_t*, const int32_t*,
                            const Int8Constants*);
  const Int8Weights::Block& own = weights.blocks()[block];
  for (const Chunk& chunk : blocks_[block]) {
    const int32_t* from = own.quads.data() + chunk.quad;
    if (own.packed()) {
      size_t first = chunk.quad / 16 * 16;
      own.expand(first, chunk.end, chunk.value, quads);
      from = quads + (chunk.quad - first);
    }
    reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data() + chunk.code))(
        &strip, vectors, sums, from, own.start.data(), has_ending() ? &constants_[block] : nullptr);
  }
}

}  // namespace skinny::jit
