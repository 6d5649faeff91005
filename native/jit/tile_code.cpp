#include "tile_code.h"

#include <algorithm>

namespace skinny::jit {
namespace {

constexpr size_t line_bytes = 64;

Range lines(const Chunk& chunk) {
  return {chunk.code / line_bytes, (chunk.code + chunk.bytes + line_bytes - 1) / line_bytes};
}

}  // namespace

std::unique_ptr<const TileCode> TileCode::make(const ConvWeights& weights,
                                               const TapOffsets& offsets,
                                               const std::vector<float>& bias, float low,
                                               float high, const Form& form, size_t most) {
  auto far = [](int32_t offset) { return offset < -max_tap_offset || offset > max_tap_offset; };
  if (std::any_of(offsets.table.begin(), offsets.table.end(), far)) return nullptr;
  Generator generator(form);
  std::vector<ChannelRange> ranges;
  for (size_t index = 0; index < weights.range_count(); ++index) {
    Range channels = weights.channels(index);
    ChannelRange& range = ranges.emplace_back();
    range.first = channels.begin;
    range.group = weights.group(index);
    for (size_t b = 0; b < weights.block_count(); ++b) {
      Block block;
      block.weights = weights.non_zeros(index, b);
      block.rows = channels.end - channels.begin;
      block.offsets = &offsets.table;
      block.bias = b == 0 ? bias.data() + channels.begin : nullptr;
      block.last = b + 1 == weights.block_count();
      block.low = low;
      block.high = high;
      for (const Chunk& chunk : generator.add(block)) range.parts.push_back({b, chunk});
      if (generator.code().size() + generator.stream().size() * sizeof(float) > most)
        return nullptr;
    }
  }
  std::optional<Executable> code = Executable::make(generator.code());
  if (!code) return nullptr;
  return std::unique_ptr<const TileCode>(
      new TileCode(form, std::move(*code), generator.stream(), std::move(ranges)));
}

// Functions outside, tiles inside: a function's instructions are fetched once for all tiles. Those of
// the next function are prefetched meanwhile, into the second-level cache: processors fetch code that
// is further away than that one line after the other.
void TileCode::run(size_t index, const TapOffsets& offsets, const float* const* in,
                   ptrdiff_t row_stride, size_t rows, size_t vectors, float* const* out,
                   size_t stride, size_t count) const {
  const ChannelRange& range = ranges_[index];
  const size_t calls = form_.channels == 1 ? count : count * rows * vectors / form_.vectors;
  for (size_t p = 0; p < range.parts.size(); ++p) {
    const Part& part = range.parts[p];
    Range ahead = p + 1 < range.parts.size() ? lines(range.parts[p + 1].chunk) : Range{0, 0};
    size_t call = 0;
    auto run_patch = [&](const float* from, float* to) {
      Range own = partition(ahead.end - ahead.begin, call++, calls);
      for (size_t i = ahead.begin + own.begin; i < ahead.begin + own.end; ++i)
        __builtin_prefetch(code_.data() + i * line_bytes, 0, 2);
      function(part.chunk)(from, to, stride * sizeof(float), stream_.data() + part.chunk.stream,
                           row_stride * static_cast<ptrdiff_t>(sizeof(float)));
    };
    for (size_t t = 0; t < count; ++t) {
      const float* from = in[t] + static_cast<ptrdiff_t>(range.group) * offsets.group_stride +
                          offsets.blocks[part.block];
      float* to = out[t] + (range.first + part.chunk.row) * stride;
      if (form_.channels == 1)
        run_patch(from, to);
      else
        for (size_t r = 0; r < rows; ++r, from += row_stride, to += vectors * form_.lanes())
          for (size_t v = 0; v < vectors; v += form_.vectors)
            run_patch(from + v * form_.lanes(), to + v * form_.lanes());
    }
  }
}

Function TileCode::function(const Chunk& chunk) const {
  return reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data() + chunk.code));
}

}  // namespace skinny::jit
