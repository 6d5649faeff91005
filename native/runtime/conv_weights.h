// A convolution's weights in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tile.h"
#include "view.h"

namespace skinny {

// Weights for one geometry of the input.
//
// Output channels are divided into ranges, each within one group of the convolution, so that
// threads can split a layer by channels. Input channels are divided into blocks that fit in the
// first-level cache; the partial sums of a tile travel through the scratch buffer between blocks.
//
// Sparse weights are the non-zeros and the index of each one's tap in its block: one byte where a
// block has at most 256 taps, else two. Where a bitmask is smaller than such bytes, it is stored in
// their place and expanded to bytes when they are needed, a few rows at a time. One table of
// offsets, indexed by tap, serves all blocks.
class ConvWeights {
 public:
  // weights: [outputs][taps], taps being (input channel of the group, kernel row, kernel column).
  // offsets: of each tap, in floats. A group's taps lie `group_stride` floats after those of the
  // group before. The offsets of a block of `block_taps` taps are those of the first block plus a
  // constant. Output channels are divided into at least `ranges` ranges, as far as there are
  // channels. Throws std::invalid_argument for sizes and offsets that do not fit.
  ConvWeights(const float* weights, size_t outputs, const int32_t* offsets, size_t taps,
              size_t groups, int64_t group_stride, size_t block_taps, size_t ranges, bool dense);

  // Sums of the output channels of range `index` for one tile of rows x vectors.
  void run(size_t index, const float* in, ptrdiff_t row_stride, int rows, int vectors,
           float* out, size_t stride, const float* bias, float low, float high) const;

  size_t outputs() const { return outputs_; }
  size_t range_count() const { return ranges_.size(); }
  Range channels(size_t index) const { return {ranges_[index].begin, ranges_[index].end}; }
  // The largest offset of a tap, to be checked against the input's size; the smallest is >= 0.
  int64_t max_tap() const { return max_tap_; }
  size_t bytes() const;

 private:
  struct Block {
    ptrdiff_t base = 0;  // floats from the input's first to this block's
    size_t taps = 0;
    std::vector<float> values;    // sparse; or dense: [rows / dense_rows][taps][dense_rows]
    std::vector<uint8_t> masks;   // sparse: for each row, which taps it has; or
    std::vector<uint8_t> small;   // the taps' indices, in here or
    std::vector<uint16_t> large;  // in here
    std::vector<RowTaps> rows;    // sparse: ordered by their number of taps, so that the inner
                                  // loop's length seldom changes and is predicted
  };
  struct ChannelRange {
    size_t begin, end;
    std::vector<Block> blocks;
  };
  void add_dense(Block& block, size_t rows, const float* weights, size_t taps) const;
  void add_sparse(Block& block, size_t rows, const float* weights, size_t taps,
                  bool every_row) const;
  void run_masks(const Block& block, const TileInput& from, SparseTile<uint8_t> kernel, float* out,
                 size_t stride, const Accumulation& accumulation) const;

  size_t outputs_;
  bool dense_;
  int64_t max_tap_ = 0;
  std::vector<int32_t> offsets_;  // of a block's taps, from its base
  std::vector<ChannelRange> ranges_;
};

}  // namespace skinny
