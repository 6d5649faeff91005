// Weights of a fully connected layer in int8, for few rows of inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "int8.h"

namespace skinny {

// Each output's non-zeros in two levels: a bit for each four neighbouring columns, four bits for each
// of these that has a non-zero, and the values. At 90 % sparsity that is 1.4 bits a weight with
// single weights and 1.15 with groups of four; a bit for each column would make it 1.8.
class Int8Matrix {
 public:
  // weights: [outputs][columns].
  Int8Matrix(const int8_t* weights, size_t outputs, size_t columns, int32_t zero,
             std::vector<float> scale, std::vector<float> bias);

  size_t outputs() const { return start_.size(); }
  size_t columns() const { return columns_; }
  size_t words() const { return words_; }  // of 64 columns each
  size_t bytes() const;
  std::vector<int8_t> integers() const;  // as they were given
  // y[row][output], `y_stride` apart, of `rows` rows of bytes, for a range of outputs.
  void run(size_t begin, size_t end, const uint8_t* x, size_t x_stride, size_t rows, float low,
           float high, float* y, size_t y_stride) const;

 private:
  Int8Row row(size_t output) const;

  size_t columns_, words_, groups_;
  std::vector<uint64_t> quads_;
  std::vector<uint8_t> bits_;
  std::vector<int8_t> values_;
  std::vector<size_t> first_bits_, first_value_;
  std::vector<int32_t> start_;
  std::vector<float> scale_, bias_;
};

}  // namespace skinny
