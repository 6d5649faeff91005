#include "weights.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace skinny {

ConvWeights::ConvWeights(const float* weights, size_t outputs, const int32_t* offsets, size_t taps,
                         size_t groups, int64_t group_stride, size_t block, size_t parts,
                         bool dense)
    : outputs_(outputs), dense_(dense) {
  size_t group_rows = outputs / groups;
  size_t unit = dense ? static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows) : 1;
  size_t units = (group_rows + unit - 1) / unit;
  size_t group_parts = std::clamp<size_t>((parts + groups - 1) / groups, 1, units);
  lowest_ = *std::min_element(offsets, offsets + taps);
  highest_ = *std::max_element(offsets, offsets + taps) +
             group_stride * static_cast<int64_t>(groups - 1);
  for (size_t group = 0; group < groups; ++group) {
    int64_t shift = group_stride * static_cast<int64_t>(group);
    for (size_t i = 0; i < group_parts; ++i) {
      Part part{group * group_rows + units * i / group_parts * unit,
                group * group_rows +
                    std::min(group_rows, units * (i + 1) / group_parts * unit),
                {}};
      for (size_t from = 0; from < taps; from += block) {
        size_t to = std::min(taps, from + block);
        bool edge = from == 0 || to == taps;
        part.blocks.emplace_back();
        if (dense)
          add_dense(part.blocks.back(), part, weights, offsets, taps, shift, from, to);
        else
          add_sparse(part.blocks.back(), part, weights, offsets, taps, shift, from, to, edge);
      }
      parts_.push_back(std::move(part));
    }
  }
}

void ConvWeights::add_sparse(Block& block, const Part& part, const float* weights,
                             const int32_t* offsets, size_t taps, int64_t shift, size_t from,
                             size_t to, bool keep_empty) const {
  for (size_t row = part.begin; row < part.end; ++row) {
    auto ones = std::count_if(weights + row * taps + from, weights + row * taps + to,
                              [](float w) { return w != 0; });
    // The first block writes the bias and the last one clamps, for every row.
    if (ones || keep_empty)
      block.runs.push_back({static_cast<int32_t>(row), static_cast<int32_t>(ones)});
  }
  std::stable_sort(block.runs.begin(), block.runs.end(),
                   [](const Run& a, const Run& b) { return a.count < b.count; });
  for (const Run& run : block.runs)
    for (size_t t = from; t < to; ++t)
      if (float w = weights[static_cast<size_t>(run.row) * taps + t]; w != 0)
        block.taps.push_back({static_cast<int32_t>(offsets[t] + shift), w});
  block.taps.shrink_to_fit();
}

void ConvWeights::add_dense(Block& block, const Part& part, const float* weights,
                            const int32_t* offsets, size_t taps, int64_t shift, size_t from,
                            size_t to) const {
  size_t unit = static_cast<size_t>(SKINNY_CHOOSE(tile).dense_rows);
  for (size_t t = from; t < to; ++t)
    block.offsets.push_back(static_cast<int32_t>(offsets[t] + shift));
  for (size_t row = part.begin; row < part.end; row += unit)
    for (size_t t = from; t < to; ++t)
      for (size_t i = row; i < row + unit; ++i)
        block.weights.push_back(i < part.end ? weights[i * taps + t] : 0.f);
}

void ConvWeights::run(size_t index, const float* in, ptrdiff_t row_stride, int rows, int vectors,
                      float* out, size_t stride, const float* bias, float low,
                      float high) const {
  const TileKernels& kernels = SKINNY_CHOOSE(tile);
  const Part& part = parts_[index];
  ptrdiff_t at[tile_vectors];
  for (int i = 0; i < rows * vectors; ++i)
    at[i] = i / vectors * row_stride + i % vectors * kernels.lanes;
  for (size_t b = 0; b < part.blocks.size(); ++b) {
    const Block& block = part.blocks[b];
    Edge edge{b == 0 ? bias : nullptr, b + 1 == part.blocks.size(), low, high};
    if (!dense_) {
      kernels.sparse[rows][vectors](in, row_stride, block.taps.data(), block.runs.data(),
                                    block.runs.size(), out, stride, edge);
      continue;
    }
    const float* weights = block.weights.data();
    size_t unit = static_cast<size_t>(kernels.dense_rows);
    for (size_t row = part.begin; row < part.end; row += unit) {
      kernels.dense(in, at, rows * vectors, block.offsets.data(), block.offsets.size(), weights,
                    static_cast<int>(row), static_cast<int>(std::min(unit, part.end - row)),
                    out, stride, edge);
      weights += block.offsets.size() * unit;
    }
  }
}

LinearWeights::LinearWeights(const uint8_t* mask, const float* values, size_t count,
                             std::shared_ptr<const void> owner, size_t rows, size_t cols)
    : rows_(rows), cols_(cols) {
  if (count * 8 < rows * cols && count) {
    make_steps(mask, values, count);
    return;
  }
  mask_values_ = values;
  owner_ = std::move(owner);
  size_t words = (cols + 63) / 64;
  mask_.assign(rows * words, 0);
  first_.resize(rows + 1);
  if (cols % 64 == 0) {
    std::memcpy(mask_.data(), mask, rows * words * 8);  // as the file has it
  } else {
    for (size_t row = 0; row < rows; ++row)
      for (size_t c = 0, bit = row * cols; c < cols; ++c, ++bit)
        mask_[row * words + c / 64] |= uint64_t(mask[bit / 8] >> (bit % 8) & 1) << (c % 64);
  }
  for (size_t row = 0; row < rows; ++row) {
    uint64_t ones = 0;
    for (size_t w = 0; w < words; ++w)
      ones += static_cast<uint64_t>(__builtin_popcountll(mask_[row * words + w]));
    first_[row + 1] = first_[row] + ones;
  }
  if (first_[rows] != count) throw std::invalid_argument("a mask needs one value for each one");
}

void LinearWeights::make_steps(const uint8_t* mask, const float* values, size_t count) {
  constexpr size_t longest = 255;
  steps_.reserve(count);
  values_.reserve(count);
  first_.push_back(0);
  size_t used = 0;
  for (size_t row = 0; row < rows_; ++row) {
    size_t last = 0, bit = row * cols_, end = bit + cols_;
    while (bit < end) {
      if (bit % 8 == 0 && bit + 8 <= end && mask[bit / 8] == 0) {
        bit += 8;
        continue;
      }
      if (mask[bit / 8] >> (bit % 8) & 1) {
        if (used == count) throw std::invalid_argument("a mask needs one value for each one");
        size_t column = bit - row * cols_;
        for (; column - last > longest; last += longest) {
          steps_.push_back(longest);
          values_.push_back(0);
        }
        steps_.push_back(static_cast<uint8_t>(column - last));
        values_.push_back(values[used++]);
        last = column;
      }
      ++bit;
    }
    first_.push_back(steps_.size());
  }
  if (used != count) throw std::invalid_argument("a mask needs one value for each one");
}

LinearWeights::LinearWeights(const float* dense, size_t rows, size_t cols)
    : rows_(rows), cols_(cols), values_(dense, dense + rows * cols) {}

void LinearWeights::run(size_t begin, size_t end, const float* x, size_t n, const float* bias,
                        float* y) const {
  const LinearKernels& kernels = SKINNY_CHOOSE(linear);
  if (!steps_.empty()) {
    StepRows weights{steps_.data(), values_.data(), first_.data()};
    if (n == 1)
      kernels.step_one(weights, begin, end, x, bias, y);
    else
      kernels.step_many(weights, cols_, begin, end, x, n, bias, y);
    return;
  }
  if (mask_.empty()) {
    if (n == 1)
      kernels.dense_one(values_.data(), cols_, begin, end, x, bias, y);
    else
      kernels.dense_many(values_.data(), cols_, begin, end, x, n, bias, y);
    return;
  }
  MaskRows weights{mask_.data(), mask_values_, first_.data(), readable_columns() / 64, rows_};
  if (n == 1)
    kernels.mask_one(weights, begin, end, x, bias, y);
  else
    kernels.mask_many(weights, begin, end, x, n, bias, y);
}

size_t LinearWeights::bytes() const {
  size_t values = mask_values_ ? first_.back() : values_.size();
  return (mask_.size() + first_.size()) * sizeof(uint64_t) + steps_.size() +
         values * sizeof(float);
}

}  // namespace skinny
