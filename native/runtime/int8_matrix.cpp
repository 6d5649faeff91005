#include "int8_matrix.h"

#include <algorithm>
#include <utility>

#include "int8_weights.h"
#include "require.h"

namespace skinny {
namespace {

constexpr size_t slack = 64;  // bytes: kernels read whole vectors

unsigned bits_of(const int8_t* weights, size_t count) {
  unsigned bits = 0;
  for (size_t i = 0; i < count; ++i) bits |= static_cast<unsigned>(weights[i] != 0) << i;
  return bits;
}

}  // namespace

Int8Matrix::Int8Matrix(const int8_t* weights, size_t outputs, size_t columns, int32_t zero,
                       std::vector<float> scale, std::vector<float> bias)
    : columns_(columns),
      words_((columns + 63) / 64),
      groups_((columns + 255) / 256),
      quads_(outputs * groups_),
      scale_(std::move(scale)),
      bias_(std::move(bias)) {
  require(outputs && columns, "a layer in int8 must not be empty");
  require(scale_.size() == outputs && bias_.size() == outputs,
          "a scale and a bias for each output is needed");
  const int8_t* end = weights + outputs * columns;
  values_.reserve(static_cast<size_t>(end - weights - std::count(weights, end, int8_t{0})) + slack);
  for (size_t o = 0; o < outputs; ++o) {
    const int8_t* row = weights + o * columns;
    first_bits_.push_back(bits_.size());
    first_value_.push_back(values_.size());
    start_.push_back(int8_start(row, columns, zero));
    size_t count = 0;  // quads of these 256 columns
    for (size_t at = 0; at < columns; at += 4) {
      if (at % 256 == 0) count = 0;
      unsigned bits = bits_of(row + at, std::min<size_t>(4, columns - at));
      if (!bits) continue;
      quads_[o * groups_ + at / 256] |= uint64_t{1} << at % 256 / 4;
      if (count++ % 2 == 0) bits_.push_back(0);
      bits_.back() |= static_cast<uint8_t>(count % 2 ? bits : bits << 4);
      for (; bits; bits &= bits - 1)
        values_.push_back(row[at + static_cast<size_t>(__builtin_ctz(bits))]);
    }
  }
  bits_.resize(bits_.size() + slack);
  bits_.shrink_to_fit();
  values_.resize(values_.size() + slack);
}

Int8Row Int8Matrix::row(size_t output) const {
  return {quads_.data() + output * groups_, bits_.data() + first_bits_[output],
          values_.data() + first_value_[output]};
}

std::vector<int8_t> Int8Matrix::integers() const {
  std::vector<int8_t> made(outputs() * columns_);
  for (size_t o = 0; o < outputs(); ++o) {
    Int8Row from = row(o);
    int8_t* to = made.data() + o * columns_;
    for (size_t quad = 0, count = 0; quad < (columns_ + 3) / 4; ++quad) {
      if (quad % 64 == 0) count += count % 2;
      if (!(from.quads[quad / 64] >> quad % 64 & 1)) continue;
      unsigned bits = static_cast<unsigned>(from.bits[count / 2] >> count % 2 * 4) & 15;
      for (++count; bits; bits &= bits - 1)
        to[4 * quad + static_cast<size_t>(__builtin_ctz(bits))] = *from.values++;
    }
  }
  return made;
}

size_t Int8Matrix::bytes() const {
  return 8 * quads_.size() + bits_.size() + values_.size() +
         sizeof(size_t) * (first_bits_.size() + first_value_.size()) +
         4 * (start_.size() + scale_.size() + bias_.size());
}

void Int8Matrix::run(size_t begin, size_t end, const uint8_t* x, size_t x_stride, size_t rows,
                     float low, float high, float* y, size_t y_stride) const {
  constexpr size_t at_once = 64;
  const Int8Dot& dot = int8_dot();
  int32_t sums[at_once];
  for (size_t first = 0; first < rows; first += at_once) {
    size_t count = std::min(at_once, rows - first);
    for (size_t o = begin; o < end; ++o) {
      dot.run(row(o), words_, x + first * x_stride, x_stride, count, sums);
      for (size_t i = 0; i < count; ++i) {
        float made = static_cast<float>(sums[i] + start_[o]) * scale_[o];
        made = made + bias_[o];
        made = made < low ? low : made;
        y[(first + i) * y_stride + o] = made > high ? high : made;
      }
    }
  }
}

}  // namespace skinny
