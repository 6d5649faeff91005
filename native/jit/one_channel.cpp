// Code for one output channel after the other (AVX2, few non-zeros).
#include <algorithm>

#include "generator.h"
#include "registers.h"

namespace skinny::jit {
namespace {

// Of a function for single channels: tiles take turns, and each has to load its input again.
constexpr size_t long_code = 192 << 10;

}  // namespace

// One function for many channels, which walks through `out`.
void Generator::add_single(const Block& block, std::vector<Chunk>& chunks) {
  const NonZero* begin = block.weights.data();
  const NonZero* last = begin + block.weights.size();
  for (size_t row = 0; row < block.rows; ++row) {
    if (chunks.empty() || code_.size() - chunks.back().code > long_code) {
      if (!chunks.empty()) close(chunks.back());
      chunks.push_back(open(row));
      if (prefetches(block)) code_.mov(next_code, {Reg::rsp, 8});
    }
    const NonZero* end = begin;
    while (end != last && end->row == row) ++end;
    if (begin != end || block.bias || block.last) {
      begin_sum(block, row, 0, out);
      add_alone(block, chunks.back(), begin, end);
      if (block.last) clamp(0, form_.rows * form_.vectors, block.low, block.high);
      store_sum(0, out);
    }
    code_.add(out, out_stride);
    begin = end;
  }
  close(chunks.back());
}

// Where a vector of the patch lies, from `at`. The row strides' multiples are 1 to 7.
Address Generator::patch(size_t row, size_t vector) const {
  auto disp = static_cast<int32_t>(vector) * vector_bytes() - patch_bias();
  switch (row) {
    case 0: return {at, disp};
    case 1: return {at, disp, row_stride, 1};
    case 2: return {at, disp, row_stride, 2};
    case 3: return {at, disp, row_stride_3, 1};
    case 4: return {at, disp, row_stride, 4};
    case 5: return {at, disp, row_stride_5, 1};
    case 6: return {at, disp, row_stride_3, 2};
    default: return {at, disp, row_stride_7, 1};
  }
}

// Where, among the vectors of tap `a`, the vector (row, vector) of tap `b` lies, if it does.
std::optional<size_t> Generator::position(const Block& block, const NonZero& a, const NonZero& b,
                                          size_t row, size_t vector) const {
  auto lanes = static_cast<int64_t>(form_.lanes()), vectors = static_cast<int64_t>(form_.vectors);
  int64_t apart = int64_t{(*block.offsets)[b.tap]} - (*block.offsets)[a.tap];
  for (size_t r = 0; r < form_.rows; ++r) {
    int64_t from = apart + static_cast<int64_t>(vector) * lanes +
                   (static_cast<int64_t>(row) - static_cast<int64_t>(r)) * form_.row_stride;
    if (from >= 0 && from % lanes == 0 && from / lanes < vectors)
      return r * form_.vectors + static_cast<size_t>(from / lanes);
  }
  return std::nullopt;
}

// Whether the patches of two taps have vectors in common: of neighbours in a kernel's row where images
// are interleaved, of those in a column where a patch has several rows. Where rows of one patch
// overlap, which wide padding makes of narrow images, a vector would belong to two sums.
bool Generator::overlap(const Block& block, const NonZero& a, const NonZero& b) const {
  if (form_.rows > 1 && form_.row_stride < static_cast<int64_t>(form_.vectors * form_.lanes()))
    return false;
  for (size_t row : {size_t{0}, form_.rows - 1})
    for (size_t vector : {size_t{0}, form_.vectors - 1})
      if (position(block, a, b, row, vector)) return true;
  return false;
}

// Taps whose patches overlap are a group, in which each vector is loaded once.
void Generator::add_alone(const Block& block, Chunk& chunk, const NonZero* begin,
                          const NonZero* end) {
  constexpr size_t most = 4, nearby = 16;  // of a group; how far its taps are searched
  constexpr Vector input{12}, four{13};
  auto weight = [](size_t k) { return Vector{static_cast<uint8_t>(8 + k)}; };
  by_tap_.assign(begin, end);
  std::vector<size_t> sizes;
  for (size_t i = 0; i < by_tap_.size(); i += sizes.back()) {
    NonZero* group = by_tap_.data() + i;
    size_t size = 1, stop = std::min(nearby, by_tap_.size() - i);
    for (size_t j = 1; j < stop && size < most; ++j)
      if (overlap(block, group[size - 1], group[j])) {
        std::rotate(group + size, group + j, group + j + 1);
        ++size;
      }
    sizes.push_back(size);
  }
  size_t i = 0;
  for (size_t size : sizes) {
    const NonZero* group = by_tap_.data() + i;
    for (size_t k = 0; k < size; ++k, ++i) {
      if (i % 4 == 0) code_.vbroadcastf128(four, next_four(i));
      code_.vpermilps(weight(k), four, i % 4);
    }
    if (prefetches(block) &&  // of the next function, which is about as long as this one
        chunk.code_lines * line * block.patches < code_.size() - chunk.code)
      code_.prefetcht1({next_code, static_cast<int32_t>(chunk.code_lines++ * line)});
    code_.lea(at, {in, displacement(block, group[0].tap, patch_bias())});
    for (size_t k = 0; k < size; ++k)
      for (size_t r = 0; r < form_.rows; ++r)
        for (size_t v = 0; v < form_.vectors; ++v) {
          auto place = [&](size_t other) { return position(block, group[other], group[k], r, v); };
          size_t other = 0;
          while (other < k && !place(other)) ++other;
          if (other < k) continue;  // that one read it
          Address from = patch(r, v);
          from.disp += displacement(block, group[k].tap, 0) - displacement(block, group[0].tap, 0);
          while (++other < size && !place(other)) {
          }
          if (other == size) {
            code_.vfmadd231ps(sum(0, r * form_.vectors + v), weight(k), from);
            continue;
          }
          code_.vmovups(input, from);
          for (other = k; other < size; ++other)
            if (std::optional<size_t> found = place(other))
              code_.vfmadd231ps(sum(0, *found), weight(other), input);
        }
  }
}

}  // namespace skinny::jit
