#include "tile_code.h"

#include <algorithm>
#include <numeric>

namespace skinny::jit {
namespace {

constexpr size_t line_bytes = 64;

Range lines(const Chunk& chunk) {
  return {chunk.code / line_bytes, (chunk.code + chunk.bytes + line_bytes - 1) / line_bytes};
}

// Neighbouring blocks of taps that are one block of the code: each loads and stores all sums.
struct JoinedBlocks {
  Range range;
  std::vector<int32_t> offsets;  // of their taps, from the first block's
};

// None if a tap lies too far away.
std::optional<std::vector<JoinedBlocks>> join(const ConvWeights& weights,
                                              const TapOffsets& offsets, const Form& form) {
  size_t taps = weights.block_taps(), count = weights.block_count(), at_once = 1;
  if (form.width == Width::bits512) at_once = std::max<size_t>(1, joined_taps / taps);
  size_t parts = divide_up(count, at_once);
  std::vector<JoinedBlocks> joined;
  for (size_t part = 0; part < parts; ++part) {
    JoinedBlocks& own = joined.emplace_back();
    own.range = partition(count, part, parts);
    for (size_t b = own.range.begin; b < own.range.end; ++b)
      for (int32_t offset : offsets.table) {
        ptrdiff_t from_first = offset + offsets.blocks[b] - offsets.blocks[own.range.begin];
        if (from_first < -max_tap_offset || from_first > max_tap_offset) return std::nullopt;
        own.offsets.push_back(static_cast<int32_t>(from_first));
      }
  }
  return joined;
}

// Appends those of some blocks, by row and then by tap; rows count from `first_row` on.
void add_non_zeros(const ConvWeights& weights, size_t index, Range blocks, size_t first_row,
                   std::vector<NonZero>& all) {
  std::vector<std::vector<NonZero>> found;
  Range channels = weights.channels(index);
  std::vector<size_t> next(channels.end - channels.begin + 1);  // place of each row's next weight
  next[0] = all.size();
  for (size_t b = blocks.begin; b < blocks.end; ++b) {
    found.push_back(weights.non_zeros(index, b));
    for (const NonZero& weight : found.back()) ++next[weight.row + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  all.resize(next.back());
  for (size_t b = 0; b < found.size(); ++b)
    for (NonZero weight : found[b]) {
      size_t row = weight.row;
      weight.tap += static_cast<uint32_t>(b * weights.block_taps());
      weight.row += static_cast<uint32_t>(first_row);
      all[next[row]++] = weight;
    }
}

// How many ranges of channels from `index` on are one of the code's: neighbours of one group. Where
// there are several blocks, their partial sums stay in the second-level cache.
size_t joined_ranges(const ConvWeights& weights, size_t index, size_t blocks) {
  constexpr size_t cached_rows = 256;
  size_t end = index + 1;
  while (end < weights.range_count() && weights.group(end) == weights.group(index) &&
         (blocks == 1 ||
          weights.channels(end).end - weights.channels(index).begin <= cached_rows))
    ++end;
  return end - index;
}

}  // namespace

std::unique_ptr<const TileCode> TileCode::make(const ConvWeights& weights,
                                               const TapOffsets& offsets,
                                               const std::vector<float>& bias, float low,
                                               float high, const Form& form, size_t most,
                                               CodeWriter& writer, bool residual, bool join_channels,
                                               size_t patches, const Ahead& ahead) {
  std::optional<std::vector<JoinedBlocks>> joined = join(weights, offsets, form);
  if (!joined) return nullptr;
  Generator generator(form);
  std::vector<ChannelRange> ranges;
  for (size_t index = 0, count = 1; index < weights.range_count(); index += count) {
    if (join_channels) count = joined_ranges(weights, index, joined->size());
    Range channels{weights.channels(index).begin, weights.channels(index + count - 1).end};
    ChannelRange& range = ranges.emplace_back();
    range.channels = channels;
    range.group = weights.group(index);
    for (const JoinedBlocks& blocks : *joined) {
      Block block;
      for (size_t i = index; i < index + count; ++i)
        add_non_zeros(weights, i, blocks.range, weights.channels(i).begin - channels.begin,
                      block.weights);
      block.rows = channels.end - channels.begin;
      block.offsets = &blocks.offsets;
      block.bias = blocks.range.begin == 0 ? bias.data() + channels.begin : nullptr;
      block.last = blocks.range.end == weights.block_count();
      block.low = low;
      block.high = high;
      block.residual = residual;
      block.patches = patches;
      block.ahead = ahead;
      for (const Chunk& chunk : generator.add(block))
        range.chunks.push_back({offsets.blocks[blocks.range.begin], chunk});
      if (generator.code().size() + generator.stream().size() * sizeof(float) > most)
        return nullptr;
    }
  }
  std::optional<Executable> code = writer.add(generator.code());
  if (!code) return nullptr;
  return std::unique_ptr<const TileCode>(
      new TileCode(form, std::move(*code), generator.stream(), std::move(ranges), residual));
}

// Functions outside, tiles inside: a function's instructions are fetched once for all tiles. Those of
// the next function are prefetched meanwhile, into the second-level cache: processors fetch code that
// is further away than that one line after the other. By the function itself, where it is run for few
// patches: between calls, prefetching as much takes time of its own.
void TileCode::run(size_t index, const TapOffsets& offsets, const TileRun* tiles, size_t count,
                   size_t rows, ptrdiff_t row_stride) const {
  const ChannelRange& range = ranges_[index];
  const bool single = form_.channels == 1;
  const size_t calls = single ? count : count * rows;
  for (size_t p = 0; p < range.chunks.size(); ++p) {
    const BlockChunk& part = range.chunks[p];
    const Chunk& next = range.chunks[(p + 1) % range.chunks.size()].chunk;
    const uint8_t* next_code = code_.data() + next.code;
    const float* next_stream = stream_.data() + next.stream;
    const bool between = !part.chunk.code_lines && p + 1 < range.chunks.size();
    Range ahead = between ? lines(next) : Range{0, 0};
    const size_t each = divide_up(ahead.end - ahead.begin, calls);
    Function function = this->function(part.chunk);
    for (const TileRun* tile = tiles; tile != tiles + count; ++tile) {
      const float* from =
          tile->in + static_cast<ptrdiff_t>(range.group) * offsets.group_stride + part.offset;
      float* to = tile->out + (range.channels.begin + part.chunk.row) * tile->stride;
      auto call = [&](ptrdiff_t row_stride_or_patches) {
        for (size_t i = 0; i < each && ahead.begin < ahead.end; ++i)
          __builtin_prefetch(code_.data() + ahead.begin++ * line_bytes, 0, 2);
        function(from, to, tile->stride * sizeof(float), stream_.data() + part.chunk.stream,
                 row_stride_or_patches,
                 tile->residual ? (tile->residual - tile->out) * ptrdiff_t{sizeof(float)} : 0,
                 next_code, next_stream);
        size_t patches = single ? 1 : static_cast<size_t>(row_stride_or_patches);
        next_code += part.chunk.code_lines * line_bytes * patches;
        next_stream += part.chunk.stream_lines * line_bytes / sizeof(float) * patches;
      };
      size_t floats = tile->vectors * form_.lanes();
      if (single)
        call(row_stride * static_cast<ptrdiff_t>(sizeof(float)));
      else if (row_stride == static_cast<ptrdiff_t>(floats))  // one long row
        call(static_cast<ptrdiff_t>(rows * tile->vectors / form_.vectors));
      else
        for (size_t r = 0; r < rows; ++r, from += row_stride, to += floats)
          call(static_cast<ptrdiff_t>(tile->vectors / form_.vectors));
    }
  }
}

Function TileCode::function(const Chunk& chunk) const {
  return reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code_.data() + chunk.code));
}

}  // namespace skinny::jit
