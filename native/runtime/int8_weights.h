// Weights of layers in int8, in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "int8.h"

namespace skinny {

constexpr size_t max_int8_taps = 1 << 16;  // 16 bits number them
constexpr size_t int8_block = 24;  // output channels whose sums are in registers, or in a cache

// The first sum of an output: the products of its weights with the zero point, less.
int32_t int8_start(const int8_t* weights, size_t count, int32_t zero);

// Quads of a convolution, or of a linear layer over tokens: those with a non-zero alone. Quads that
// are mostly zeros are packed where they are in the order of taps, and expanded when they are needed:
// at 90 % sparsity a quad has 1.16 non-zeros, which take 1.7 bytes.
class Int8Weights {
 public:
  struct Block {  // as Int8Rows
    std::vector<uint32_t> first, rows;
    std::vector<uint16_t> taps;
    std::vector<int32_t> quads, start;
    size_t count = 0;           // of quads
    size_t first_tap = 0;       // tap after tap: that of rows[0]
    std::vector<uint8_t> bits;  // packed: four of each quad, and the values of those that are set
    std::vector<int8_t> values;

    bool packed() const { return quads.empty(); }
    // Quads from `begin` on, which is a multiple of 16 and whose first value is `value`; writes up to
    // 15 more than to `end`.
    void expand(size_t begin, size_t end, size_t value, int32_t* to) const;
  };
  // quads: [outputs][taps][4]. zero: of the input. scale, bias: of each output. Throws
  // std::invalid_argument for more taps than 16 bits can number.
  Int8Weights(const int8_t* quads, size_t outputs, size_t taps, int32_t zero,
              std::vector<float> scale, std::vector<float> bias);

  size_t outputs() const { return outputs_; }
  size_t taps() const { return taps_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  bool by_tap() const { return by_tap_; }  // where code can be generated
  size_t most_packed() const;              // quads of a block that are packed, in sixteens
  // The weights as they were given, [outputs][taps][4].
  std::vector<int8_t> integers() const;
  size_t quads() const;  // that are not zero
  size_t non_zeros() const { return non_zeros_; }
  size_t bytes() const;
  const float* scale() const { return scale_.data(); }  // zeros after the last, to whole quads
  const float* bias() const { return bias_.data(); }

 private:
  void sort_by_tap(Block& block) const;
  void pack();

  size_t outputs_, taps_, non_zeros_ = 0;
  bool by_tap_;
  std::vector<float> scale_, bias_;
  std::vector<Block> blocks_;
};

}  // namespace skinny
