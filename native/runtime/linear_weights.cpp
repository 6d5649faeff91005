#include "linear_weights.h"

#include <cstring>
#include <stdexcept>

namespace skinny {

LinearWeights::LinearWeights(const uint8_t* mask, const float* values, size_t count,
                             std::shared_ptr<const void> owner, size_t rows, size_t cols)
    : rows_(rows), cols_(cols) {
  if (count * 4 <= rows * cols && count)
    encode_deltas(mask, values, count, std::move(owner));
  else
    keep_mask(mask, values, count, std::move(owner));
  if (count * 2 < rows * cols) strips_ = StripWeights::make(mask, values, rows, cols);
}

void LinearWeights::keep_mask(const uint8_t* mask, const float* values, size_t count,
                              std::shared_ptr<const void> owner) {
  given_ = values;
  owner_ = std::move(owner);
  size_t rows = rows_, cols = cols_, words = (cols + 63) / 64;
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

// The values are copied only if explicit zeros come between them.
void LinearWeights::encode_deltas(const uint8_t* mask, const float* values, size_t count,
                                  std::shared_ptr<const void> owner) {
  constexpr size_t longest = 255;
  deltas_.reserve(count);
  bool copied = false;
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
          if (!copied) values_.assign(values, values + used);
          copied = true;
          deltas_.push_back(longest);
          values_.push_back(0);
        }
        deltas_.push_back(static_cast<uint8_t>(column - last));
        if (copied) values_.push_back(values[used]);
        ++used;
        last = column;
      }
      ++bit;
    }
    first_.push_back(deltas_.size());
  }
  if (used != count) throw std::invalid_argument("a mask needs one value for each one");
  if (copied) return;
  given_ = values;
  owner_ = std::move(owner);
}

LinearWeights::LinearWeights(const float* dense, size_t rows, size_t cols)
    : rows_(rows), cols_(cols), values_(dense, dense + rows * cols) {}

void LinearWeights::run(size_t begin, size_t end, const float* x, size_t n, const float* bias,
                        float* y) const {
  if (n == 1 && strips_) return strips_->run(begin, end, x, bias, y);
  const LinearKernels& kernels = SKINNY_CHOOSE(linear);
  if (!deltas_.empty()) {
    DeltaRows weights{deltas_.data(), given_ ? given_ : values_.data(), first_.data()};
    if (n == 1)
      kernels.delta_one(weights, begin, end, x, bias, y);
    else
      kernels.delta_many(weights, cols_, begin, end, x, n, bias, y);
    return;
  }
  if (mask_.empty()) {
    if (n == 1)
      kernels.dense_one(values_.data(), cols_, begin, end, x, bias, y);
    else
      kernels.dense_many(values_.data(), cols_, begin, end, x, n, bias, y);
    return;
  }
  MaskRows weights{mask_.data(), given_, first_.data(), readable_columns() / 64, rows_};
  if (n == 1)
    kernels.mask_one(weights, begin, end, x, bias, y);
  else
    kernels.mask_many(weights, begin, end, x, n, bias, y);
}

size_t LinearWeights::bytes() const {
  size_t values = given_ ? first_.back() : values_.size();
  return (mask_.size() + first_.size()) * sizeof(uint64_t) + deltas_.size() +
         values * sizeof(float) + (strips_ ? strips_->bytes() : 0);
}

double LinearWeights::work() const {
  if (strips_) return 5 * static_cast<double>(strips_->slots());
  return static_cast<double>(bytes()) / sizeof(float);
}

}  // namespace skinny
