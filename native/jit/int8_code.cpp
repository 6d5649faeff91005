#include "int8_code.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "x86.h"

namespace skinny::jit {
namespace {

constexpr size_t vpdpbusd_bytes = 7, load_bytes = 10;
constexpr size_t chunk_bytes = 14 << 10;  // of code that is run for all vectors, in the first cache
constexpr Vector input{31};

struct Entry {
  uint32_t tap;
  uint8_t row;
  int32_t quad;
};

std::vector<Entry> by_tap(const Int8Weights::Block& block) {
  std::vector<Entry> found;
  found.reserve(block.quads.size());
  for (size_t row = 0; row + 1 < block.first.size(); ++row)
    for (size_t q = block.first[row]; q < block.first[row + 1]; ++q)
      found.push_back({block.taps[q], static_cast<uint8_t>(row), block.quads[q]});
  std::stable_sort(found.begin(), found.end(),
                   [](const Entry& a, const Entry& b) { return a.tap < b.tap; });
  return found;
}

Vector sum(size_t row) { return {static_cast<uint8_t>(row)}; }

}  // namespace

class Int8Generator {
 public:
  explicit Int8Generator(const std::vector<int32_t>& offsets) : offsets_(offsets) {}

  std::vector<Int8Code::Chunk> add(const Int8Weights::Block& block) {
    std::vector<Entry> entries = by_tap(block);
    std::vector<Int8Code::Chunk> chunks;
    auto at = entries.begin();
    do {
      auto end = at;
      size_t bytes = 0;
      for (; end != entries.end() && bytes < chunk_bytes; ++end)
        bytes += vpdpbusd_bytes + (end == at || end->tap != (end - 1)->tap ? load_bytes : 0);
      chunks.push_back(chunk(block, &*at, &*at + (end - at), at == entries.begin()));
      at = end;
    } while (at != entries.end());
    return chunks;
  }

  const std::vector<uint8_t>& code() const { return code_.bytes(); }
  std::vector<int32_t>& stream() { return stream_; }

 private:
  static constexpr Reg in = Reg::rdi, count = Reg::rsi, sums = Reg::rdx, quads = Reg::rcx,
                       cells = Reg::r8, near = Reg::r9;

  // void(const float* const* in, size_t vectors, int32_t* sums, const int32_t* quads)
  Int8Code::Chunk chunk(const Int8Weights::Block& block, const Entry* begin, const Entry* end,
                        bool first) {
    code_.align(64);
    Int8Code::Chunk made{code_.size(), stream_.size()};
    size_t rows = block.start.size();
    begun_ = stream_.size();
    size_t loop = code_.size();
    code_.mov(cells, Address{in});
    base_ = reach;
    code_.lea(near, {quads, reach});
    for (size_t row = 0; row < rows; ++row) {
      if (first)
        code_.vbroadcastss(sum(row), next(block.start[row]));
      else
        code_.vmovups(sum(row), {sums, static_cast<int32_t>(64 * row)});
    }
    for (const Entry* e = begin; e != end; ++e) {
      if (e == begin || e->tap != e[-1].tap)
        code_.vmovups(input, {cells, 4 * offsets_[e->tap]});
      code_.vpdpbusd_broadcast(sum(e->row), input, next(e->quad));
    }
    for (size_t row = 0; row < rows; ++row)
      code_.vmovups({sums, static_cast<int32_t>(64 * row)}, sum(row));
    code_.add(in, 8);
    code_.add(sums, static_cast<int32_t>(64 * rows));
    code_.add(count, -1);
    code_.jnz(loop);
    code_.vzeroupper();
    code_.ret();
    return made;
  }

  // The place of the next number of the stream; `near` moves on, so that displacements are short.
  Address next(int32_t number) {
    auto at = static_cast<int32_t>(4 * (stream_.size() - begun_));
    stream_.push_back(number);
    if (at - base_ >= reach) {
      base_ = at + reach;
      code_.lea(near, {quads, base_});
    }
    return {near, at - base_};
  }

  static constexpr int32_t reach = 512;  // bytes: 128 displacements of four bytes
  const std::vector<int32_t>& offsets_;
  Assembler code_{Width::bits512};
  std::vector<int32_t> stream_;
  size_t begun_ = 0;
  int32_t base_ = 0;
};

std::unique_ptr<const Int8Code> Int8Code::make(const Int8Weights& weights,
                                               const std::vector<int32_t>& offsets, size_t most) {
  const char* wish = std::getenv("SKINNY_JIT");
  if (isa() != Isa::avx512 || !has_vnni() || (wish && std::strcmp(wish, "0") == 0)) return nullptr;
  if (weights.quads() * (vpdpbusd_bytes + load_bytes) > most) return nullptr;
  if (*std::max_element(offsets.begin(), offsets.end()) >= 1 << 29) return nullptr;
  Int8Generator generator(offsets);
  std::vector<std::vector<Chunk>> blocks;
  for (const Int8Weights::Block& block : weights.blocks()) blocks.push_back(generator.add(block));
  std::optional<Executable> code = Executable::make(generator.code());
  if (!code) return nullptr;
  generator.stream().shrink_to_fit();
  return std::unique_ptr<const Int8Code>(
      new Int8Code(std::move(*code), std::move(generator.stream()), std::move(blocks)));
}

void Int8Code::run(size_t block, const float* const* in, size_t vectors, int32_t* sums) const {
  using Function = void (*)(const float* const*, size_t, int32_t*, const int32_t*);
  for (const Chunk& chunk : blocks_[block])
    reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data() + chunk.code))(
        in, vectors, sums, stream_.data() + chunk.stream);
}

}  // namespace skinny::jit
