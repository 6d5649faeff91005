#include "conv_weights.h"

#include <algorithm>
#include <stdexcept>

namespace skinny {
namespace {

constexpr size_t most_rows = size_t{1} << 16;  // of a part: a run has 16 bits for its row
constexpr size_t most_taps = (size_t{1} << 16) - 1;  // of a block

template <class Index>
void add_numbers(std::vector<Index>& numbers, const std::vector<Run>& runs, const float* weights,
                 size_t taps, size_t block_taps, size_t total) {
  numbers.reserve(total + tap_slack);
  for (const Run& run : runs)
    for (size_t t = 0; t < block_taps; ++t)
      if (weights[run.row * taps + t] != 0) numbers.push_back(static_cast<Index>(t));
  numbers.resize(total + tap_slack);  // the kernels read ahead
}

constexpr size_t mask_bytes(size_t taps) { return (taps + 7) / 8; }

void add_masks(std::vector<uint8_t>& masks, const std::vector<Run>& runs, const float* weights,
               size_t taps, size_t block_taps) {
  size_t bytes = mask_bytes(block_taps);
  masks.assign(runs.size() * bytes + mask_slack, 0);
  uint8_t* mask = masks.data();
  for (const Run& run : runs) {
    for (size_t t = 0; t < block_taps; ++t)
      mask[t / 8] = static_cast<uint8_t>(mask[t / 8] | (weights[run.row * taps + t] != 0) << t % 8);
    mask += bytes;
  }
}

}  // namespace

ConvWeights::ConvWeights(const float* weights, size_t outputs, const int32_t* offsets, size_t taps,
                         size_t groups, int64_t group_stride, size_t block, size_t parts,
                         bool dense)
    : outputs_(outputs), dense_(dense), offsets_(offsets, offsets + std::min(block, taps)) {
  if (!dense && offsets_.size() > most_taps)
    throw std::invalid_argument("a block of a convolution has too many taps");
  size_t group_rows = outputs / groups;
  size_t unit = dense ? static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows) : 1;
  size_t units = (group_rows + unit - 1) / unit;
  size_t fewest = (units + most_rows / unit - 1) / (most_rows / unit);
  size_t group_parts = std::clamp((parts + groups - 1) / groups, fewest, units);
  lowest_ = *std::min_element(offsets, offsets + taps);
  highest_ = *std::max_element(offsets, offsets + taps) +
             group_stride * static_cast<int64_t>(groups - 1);
  for (int32_t& offset : offsets_) offset -= offsets[0];
  for (size_t t = 0; t < taps; ++t)
    if (offsets[t] - offsets[t / block * block] != offsets_[t % block])
      throw std::invalid_argument("the blocks of a convolution must be alike");
  for (size_t group = 0; group < groups; ++group) {
    int64_t shift = group_stride * static_cast<int64_t>(group);
    for (size_t i = 0; i < group_parts; ++i) {
      Part part{group * group_rows + units * i / group_parts * unit,
                group * group_rows +
                    std::min(group_rows, units * (i + 1) / group_parts * unit),
                {}};
      for (size_t from = 0; from < taps; from += block) {
        Block& added = part.blocks.emplace_back();
        added.base = static_cast<ptrdiff_t>(offsets[from] + shift);
        added.taps = std::min(block, taps - from);
        const float* first = weights + part.begin * taps + from;
        // The first block writes the bias and the last one clamps, for every row.
        bool edge = from == 0 || from + block >= taps;
        if (dense)
          add_dense(added, part, first, taps);
        else
          add_sparse(added, part, first, taps, edge);
      }
      parts_.push_back(std::move(part));
    }
  }
}

void ConvWeights::add_sparse(Block& block, const Part& part, const float* weights, size_t taps,
                             bool every_row) const {
  size_t total = 0;
  for (size_t row = 0; row < part.end - part.begin; ++row) {
    auto kept = static_cast<size_t>(
        std::count_if(weights + row * taps, weights + row * taps + block.taps,
                      [](float w) { return w != 0; }));
    if (!kept && !every_row) continue;
    block.runs.push_back({static_cast<uint16_t>(row), static_cast<uint16_t>(kept)});
    total += kept;
  }
  std::stable_sort(block.runs.begin(), block.runs.end(),
                   [](const Run& a, const Run& b) { return a.taps < b.taps; });
  block.runs.shrink_to_fit();
  block.values.reserve(total);
  for (const Run& run : block.runs)
    for (size_t t = 0; t < block.taps; ++t)
      if (float weight = weights[run.row * taps + t]; weight != 0) block.values.push_back(weight);
  bool bytes = offsets_.size() <= 256;
  if (bytes && block.runs.size() * mask_bytes(block.taps) < total)
    add_masks(block.masks, block.runs, weights, taps, block.taps);
  else if (bytes)
    add_numbers(block.small, block.runs, weights, taps, block.taps, total);
  else
    add_numbers(block.large, block.runs, weights, taps, block.taps, total);
}

void ConvWeights::add_dense(Block& block, const Part& part, const float* weights,
                            size_t taps) const {
  auto unit = static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows);
  size_t rows = part.end - part.begin;
  block.values.reserve((rows + unit - 1) / unit * unit * block.taps);
  for (size_t row = 0; row < rows; row += unit)
    for (size_t t = 0; t < block.taps; ++t)
      for (size_t i = row; i < row + unit; ++i)
        block.values.push_back(i < rows ? weights[i * taps + t] : 0.f);
}

void ConvWeights::run(size_t index, const float* in, ptrdiff_t row_stride, int rows, int vectors,
                      float* out, size_t stride, const float* bias, float low,
                      float high) const {
  const TileKernels& kernels = SKINNY_CHOOSE(tile);
  const Part& part = parts_[index];
  out += part.begin * stride;
  for (size_t b = 0; b < part.blocks.size(); ++b) {
    const Block& block = part.blocks[b];
    Edge edge{b == 0 ? bias + part.begin : nullptr, b + 1 == part.blocks.size(), low, high};
    TileInput from{in + block.base, row_stride, offsets_.data()};
    if (dense_) {
      kernels.dense(from, rows, vectors,
                    {block.values.data(), block.taps, part.end - part.begin}, out, stride, edge);
    } else if (!block.masks.empty()) {
      run_masks(block, from, kernels.small[rows][vectors], out, stride, edge);
    } else if (!block.small.empty()) {
      kernels.small[rows][vectors](
          from, {block.small.data(), block.values.data(), block.runs.data(), block.runs.size()},
          out, stride, edge);
    } else {
      kernels.large[rows][vectors](
          from, {block.large.data(), block.values.data(), block.runs.data(), block.runs.size()},
          out, stride, edge);
    }
  }
}

void ConvWeights::run_masks(const Block& block, const TileInput& from, SparseTile<uint8_t> kernel,
                            float* out, size_t stride, const Edge& edge) const {
  constexpr size_t room = 8192;  // taps of so many rows at a time: their numbers stay in the cache
  uint8_t numbers[room + number_slack];
  size_t bytes = mask_bytes(block.taps), at_once = room / (8 * bytes);
  auto expand = SKINNY_CHOOSE(tile).expand;
  const float* values = block.values.data();
  for (size_t first = 0; first < block.runs.size(); first += at_once) {
    size_t count = std::min(at_once, block.runs.size() - first);
    size_t total = expand(block.masks.data() + first * bytes, count, bytes, numbers);
    kernel(from, {numbers, values, block.runs.data() + first, count}, out, stride, edge);
    values += total;
  }
}

size_t ConvWeights::bytes() const {
  size_t total = offsets_.size() * sizeof(int32_t);
  for (const Part& part : parts_)
    for (const Block& block : part.blocks)
      total += block.values.size() * sizeof(float) + block.masks.size() + block.small.size() +
               block.large.size() * sizeof(uint16_t) + block.runs.size() * sizeof(Run);
  return total;
}

}  // namespace skinny
