// Weights in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "linear.h"
#include "tile.h"

namespace skinny {

// A convolution's weights for one geometry of its input.
//
// Output channels are divided into parts, each within one group of the convolution, so that threads
// can share a layer by channels. A part is cut into blocks of input channels whose planes fit in
// the first-level cache; the sums of a tile travel through the scratch buffer between blocks.
class ConvWeights {
 public:
  // weights: [outputs][taps], taps being (input channel of the group, kernel row, kernel column).
  // offsets: of each tap, in floats. A group's taps lie `group_stride` floats after those of the
  // group before. A block is `block` taps.
  ConvWeights(const float* weights, size_t outputs, const int32_t* offsets, size_t taps,
              size_t groups, int64_t group_stride, size_t block, size_t parts, bool dense);

  // Sums of the output channels of `part` for one tile of rows x vectors.
  void run(size_t part, const float* in, ptrdiff_t row_stride, int rows, int vectors,
           float* out, size_t stride, const float* bias, float low, float high) const;

  size_t outputs() const { return outputs_; }
  size_t parts() const { return parts_.size(); }
  size_t begin(size_t part) const { return parts_[part].begin; }
  size_t end(size_t part) const { return parts_[part].end; }
  // Offsets of the first and the last tap, to be checked against the input's size.
  int64_t lowest() const { return lowest_; }
  int64_t highest() const { return highest_; }

 private:
  struct Block {
    std::vector<Tap> taps;         // sparse
    std::vector<Run> runs;         // sparse: rows with most taps last, so that the loop's length
                                   // seldom changes and is predicted
    std::vector<int32_t> offsets;  // dense
    std::vector<float> weights;    // dense: [rows / dense_rows][offsets][dense_rows]
  };
  struct Part {
    size_t begin, end;
    std::vector<Block> blocks;
  };
  void add_sparse(Block& block, const Part& part, const float* weights, const int32_t* offsets,
                  size_t taps, int64_t shift, size_t from, size_t to, bool keep_empty) const;
  void add_dense(Block& block, const Part& part, const float* weights, const int32_t* offsets,
                 size_t taps, int64_t shift, size_t from, size_t to) const;

  size_t outputs_;
  bool dense_;
  int64_t lowest_ = 0, highest_ = 0;
  std::vector<Part> parts_;
};

// A fully connected layer's weights: dense, or values with a bitmask or with steps (linear.h).
class LinearWeights {
 public:
  // mask: flat bits over [rows][cols], low bit first; values: one for each, kept alive by `owner`
  // and used where they are.
  LinearWeights(const uint8_t* mask, const float* values, size_t count,
                std::shared_ptr<const void> owner, size_t rows, size_t cols);
  LinearWeights(const float* dense, size_t rows, size_t cols);

  // y[begin..end) of n interleaved images; x has readable_columns() * n readable floats.
  void run(size_t begin, size_t end, const float* x, size_t n, const float* bias,
           float* y) const;

  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  size_t readable_columns() const { return (cols_ + 63) / 64 * 64; }
  const char* form() const { return !steps_.empty() ? "steps" : !mask_.empty() ? "bitmask" : "dense"; }
  size_t bytes() const;

 private:
  size_t rows_, cols_;
  void make_steps(const uint8_t* mask, const float* values, size_t count);

  std::vector<uint64_t> mask_, first_;
  std::vector<uint8_t> steps_;
  std::vector<float> values_;          // of steps, or all
  const float* mask_values_ = nullptr;  // of the mask
  std::shared_ptr<const void> owner_;
};

}  // namespace skinny
