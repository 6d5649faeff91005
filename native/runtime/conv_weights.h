// A convolution's weights in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tile.h"

namespace skinny {

// Weights for one geometry of the input.
//
// Output channels are divided into parts, each within one group of the convolution, so that threads
// can share a layer by channels. A part is cut into blocks of input channels whose planes fit in
// the first-level cache; the sums of a tile travel through the scratch buffer between blocks.
//
// Sparse weights are the non-zeros and the number of each in its block, in one byte if a block has
// no more than 256 taps, else in two. Where a bitmask is smaller than such bytes it takes their
// place, and they are made of it when needed, a few rows at a time. One table, for all blocks, has
// the offset of each number.
class ConvWeights {
 public:
  // weights: [outputs][taps], taps being (input channel of the group, kernel row, kernel column).
  // offsets: of each tap, in floats. A group's taps lie `group_stride` floats after those of the
  // group before. A block is `block` taps, and the offsets of one block are those of the first,
  // moved. Throws std::invalid_argument if they are not.
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
  size_t bytes() const;

 private:
  struct Block {
    ptrdiff_t base = 0;  // floats from the input's first to this block's
    size_t taps = 0;
    std::vector<float> values;    // sparse; or dense: [rows / dense_rows][taps][dense_rows]
    std::vector<uint8_t> masks;   // sparse: for each run, which taps it has; or
    std::vector<uint8_t> small;   // the taps' numbers, in here or
    std::vector<uint16_t> large;  // in here
    std::vector<Run> runs;        // sparse: rows with most taps last, so that the loop's length
                                  // seldom changes and is predicted
  };
  struct Part {
    size_t begin, end;
    std::vector<Block> blocks;
  };
  void add_dense(Block& block, const Part& part, const float* weights, size_t taps) const;
  void add_sparse(Block& block, const Part& part, const float* weights, size_t taps,
                  bool every_row) const;
  void run_masks(const Block& block, const TileInput& from, SparseTile<uint8_t> kernel, float* out,
                 size_t stride, const Edge& edge) const;

  size_t outputs_;
  bool dense_;
  int64_t lowest_ = 0, highest_ = 0;
  std::vector<int32_t> offsets_;  // of a block's taps, from its base
  std::vector<Part> parts_;
};

}  // namespace skinny
