#include "conv_weights.h"

#include <algorithm>
#include <stdexcept>

namespace skinny {
namespace {

constexpr size_t max_rows = size_t{1} << 16;  // of a channel range: RowTaps::row has 16 bits
// Of a channel range with several blocks: its partial sums stay in the second-level cache.
constexpr size_t cached_rows = 256;

template <class Index>
void add_indices(std::vector<Index>& indices, const std::vector<RowTaps>& rows,
                 const float* weights, size_t taps, size_t block_taps, size_t total) {
  indices.reserve(total + tap_slack);
  for (const RowTaps& own : rows)
    for (size_t t = 0; t < block_taps; ++t)
      if (weights[own.row * taps + t] != 0) indices.push_back(static_cast<Index>(t));
  indices.resize(total + tap_slack);  // the kernels read ahead
}

constexpr size_t mask_bytes(size_t taps) { return (taps + 7) / 8; }

void add_masks(std::vector<uint8_t>& masks, const std::vector<RowTaps>& rows,
               const float* weights, size_t taps, size_t block_taps) {
  size_t bytes = mask_bytes(block_taps);
  masks.assign(rows.size() * bytes + mask_slack, 0);
  uint8_t* mask = masks.data();
  for (const RowTaps& own : rows) {
    for (size_t t = 0; t < block_taps; ++t)
      mask[t / 8] = static_cast<uint8_t>(mask[t / 8] | (weights[own.row * taps + t] != 0) << t % 8);
    mask += bytes;
  }
}

}  // namespace

TapOffsets::TapOffsets(const int32_t* offsets, size_t taps, size_t block_taps, size_t groups,
                       int64_t stride)
    : table(offsets, offsets + std::min(block_taps, taps)),
      group_stride(static_cast<ptrdiff_t>(stride)) {
  auto [smallest, largest] = std::minmax_element(offsets, offsets + taps);
  if (*smallest < 0) throw std::invalid_argument("a tap's offset must not be negative");
  max = *largest + stride * static_cast<int64_t>(groups - 1);
  for (int32_t& offset : table) offset -= offsets[0];
  for (size_t t = 0; t < taps; ++t) {
    if (t % block_taps == 0) blocks.push_back(offsets[t]);
    if (offsets[t] - blocks.back() != table[t % block_taps])
      throw std::invalid_argument("the blocks of a convolution must be alike");
  }
  tap_stride = table.size() > 1 ? table[1] : 0;
  for (size_t t = 0; t < table.size(); ++t)
    if (table[t] != static_cast<ptrdiff_t>(t) * tap_stride) tap_stride = 0;
}

ConvWeights::ConvWeights(const float* weights, size_t outputs, size_t taps, size_t groups,
                         size_t block_taps, size_t ranges, bool dense)
    : outputs_(outputs),
      taps_(taps),
      groups_(groups),
      block_taps_(std::min(block_taps, taps)),
      dense_(dense) {
  if (!dense && block_taps_ > max_taps)
    throw std::invalid_argument("a block of a convolution has too many taps");
  size_t group_rows = outputs / groups;
  size_t unit = dense ? static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows) : 1;
  size_t units = (group_rows + unit - 1) / unit;
  size_t fewest = (units + max_rows / unit - 1) / (max_rows / unit);
  size_t wanted = (ranges + groups - 1) / groups;
  if (!dense && block_taps_ < taps) {  // a multiple, so that threads' shares stay equal
    size_t cached = (group_rows + cached_rows - 1) / cached_rows;
    wanted *= (cached + wanted - 1) / wanted;
  }
  size_t group_ranges = std::clamp(wanted, fewest, units);
  for (size_t group = 0; group < groups; ++group) {
    for (size_t i = 0; i < group_ranges; ++i) {
      ChannelRange range{group * group_rows + units * i / group_ranges * unit,
                         group * group_rows +
                             std::min(group_rows, units * (i + 1) / group_ranges * unit),
                         group,
                         {}};
      size_t rows = range.end - range.begin;
      for (size_t from = 0; from < taps; from += block_taps) {
        Block& block = range.blocks.emplace_back();
        block.taps = std::min(block_taps, taps - from);
        const float* first = weights + range.begin * taps + from;
        // The first block starts at the bias and the last one clamps, for every row.
        bool every_row = from == 0 || block_taps >= taps - from;
        if (dense)
          add_dense(block, rows, first, taps);
        else
          add_sparse(block, rows, first, taps, every_row);
      }
      ranges_.push_back(std::move(range));
    }
  }
}

void ConvWeights::add_sparse(Block& block, size_t rows, const float* weights, size_t taps,
                             bool every_row) const {
  size_t total = 0;
  for (size_t row = 0; row < rows; ++row) {
    auto kept = static_cast<size_t>(
        std::count_if(weights + row * taps, weights + row * taps + block.taps,
                      [](float w) { return w != 0; }));
    if (!kept && !every_row) continue;
    block.rows.push_back({static_cast<uint16_t>(row), static_cast<uint16_t>(kept)});
    total += kept;
  }
  std::stable_sort(block.rows.begin(), block.rows.end(),
                   [](const RowTaps& a, const RowTaps& b) { return a.taps < b.taps; });
  block.rows.shrink_to_fit();
  block.values.reserve(total);
  for (const RowTaps& own : block.rows)
    for (size_t t = 0; t < block.taps; ++t)
      if (float weight = weights[own.row * taps + t]; weight != 0) block.values.push_back(weight);
  bool bytes = block_taps_ <= max_byte_taps;
  if (bytes && block.rows.size() * mask_bytes(block.taps) < total)
    add_masks(block.masks, block.rows, weights, taps, block.taps);
  else if (bytes)
    add_indices(block.small, block.rows, weights, taps, block.taps, total);
  else
    add_indices(block.large, block.rows, weights, taps, block.taps, total);
}

void ConvWeights::add_dense(Block& block, size_t rows, const float* weights, size_t taps) const {
  auto unit = static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows);
  block.values.reserve((rows + unit - 1) / unit * unit * block.taps);
  for (size_t row = 0; row < rows; row += unit)
    for (size_t t = 0; t < block.taps; ++t)
      for (size_t i = row; i < row + unit; ++i)
        block.values.push_back(i < rows ? weights[i * taps + t] : 0.f);
}

void ConvWeights::run(size_t index, const TapOffsets& offsets, const float* in,
                      ptrdiff_t row_stride, int rows, int vectors, float* out, size_t stride,
                      const float* bias, const Epilogue& epilogue) const {
  const TileKernels& kernels = SKINNY_CHOOSE(tile);
  const ChannelRange& range = ranges_[index];
  in += static_cast<ptrdiff_t>(range.group) * offsets.group_stride;
  out += range.begin * stride;
  for (size_t b = 0; b < range.blocks.size(); ++b) {
    const Block& block = range.blocks[b];
    Accumulation accumulation{b == 0 ? bias + range.begin : nullptr,
                              b + 1 == range.blocks.size() ? &epilogue : nullptr};
    TileInput from{in + offsets.blocks[b], row_stride, offsets.table.data(), offsets.tap_stride};
    if (dense_) {
      kernels.dense(from, rows, vectors,
                    {block.values.data(), block.taps, range.end - range.begin}, out, stride,
                    accumulation);
    } else if (!block.masks.empty()) {
      run_masks(block, from, kernels.small(from, rows, vectors), out, stride, accumulation);
    } else if (!block.small.empty()) {
      kernels.small(from, rows, vectors)(
          from, {block.small.data(), block.values.data(), block.rows.data(), block.rows.size()},
          out, stride, accumulation);
    } else {
      kernels.large(from, rows, vectors)(
          from, {block.large.data(), block.values.data(), block.rows.data(), block.rows.size()},
          out, stride, accumulation);
    }
  }
}

void ConvWeights::run_masks(const Block& block, const TileInput& from, SparseTile<uint8_t> kernel,
                            float* out, size_t stride, const Accumulation& accumulation) const {
  constexpr size_t room = 8192;  // indices expanded at a time, which stay in the cache
  uint8_t indices[room + index_slack];
  size_t bytes = mask_bytes(block.taps), at_once = room / (8 * bytes);
  auto expand = SKINNY_CHOOSE(tile).expand;
  const float* values = block.values.data();
  for (size_t first = 0; first < block.rows.size(); first += at_once) {
    size_t count = std::min(at_once, block.rows.size() - first);
    size_t total = expand(block.masks.data() + first * bytes, count, bytes, indices);
    kernel(from, {indices, values, block.rows.data() + first, count}, out, stride, accumulation);
    values += total;
  }
}

std::vector<NonZero> ConvWeights::non_zeros(size_t index, size_t which) const {
  const Block& block = ranges_[index].blocks[which];
  std::vector<uint8_t> expanded;
  const uint8_t* small = block.small.data();
  if (!block.masks.empty()) {
    expanded.resize(block.values.size() + index_slack);
    SKINNY_CHOOSE(tile).expand(block.masks.data(), block.rows.size(), mask_bytes(block.taps),
                               expanded.data());
    small = expanded.data();
  }
  std::vector<size_t> first(ranges_[index].end - ranges_[index].begin + 1);  // of each row
  for (const RowTaps& own : block.rows) first[own.row + 1u] = own.taps;
  for (size_t row = 1; row < first.size(); ++row) first[row] += first[row - 1];
  std::vector<NonZero> found(block.values.size());
  size_t next = 0;
  for (const RowTaps& own : block.rows)
    for (size_t i = 0; i < own.taps; ++i, ++next)
      found[first[own.row] + i] = {
          own.row, block.large.empty() ? uint32_t{small[next]} : uint32_t{block.large[next]},
          block.values[next]};
  return found;
}

size_t ConvWeights::bytes() const {
  size_t total = 0;
  for (const ChannelRange& range : ranges_)
    for (const Block& block : range.blocks)
      total += block.values.size() * sizeof(float) + block.masks.size() + block.small.size() +
               block.large.size() * sizeof(uint16_t) + block.rows.size() * sizeof(RowTaps);
  return total;
}

size_t ConvWeights::values() const {
  size_t total = 0;
  for (const ChannelRange& range : ranges_)
    for (const Block& block : range.blocks) total += block.values.size();
  return total;
}

}  // namespace skinny
