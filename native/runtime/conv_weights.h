// A convolution's weights in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/non_zero.h"
#include "tile.h"
#include "view.h"

namespace skinny {

// Where the taps of a convolution lie in its input, in floats from a tile's first float. One table
// of offsets, indexed by tap, serves all blocks.
struct TapOffsets {
  std::vector<int32_t> table;       // of a block's taps, from the block's first
  std::vector<ptrdiff_t> blocks;    // of each block's first tap
  ptrdiff_t group_stride;           // from the taps of one group to those of the next
  ptrdiff_t tap_stride;             // if table[t] is t times this, as in a 1x1 convolution, else 0
  int64_t max;                      // of all taps, to be checked against the input's size

  // offsets: of each tap of the first group, none negative. Those of a block of `block_taps` taps
  // are those of the first block plus a constant. Throws std::invalid_argument for others.
  TapOffsets(const int32_t* offsets, size_t taps, size_t block_taps, size_t groups,
             int64_t group_stride);
};

// Weights for any geometry of the input.
//
// Output channels are divided into ranges, each within one group of the convolution, so that
// threads can split a layer by channels. Input channels are divided into blocks that fit in the
// first-level cache; the partial sums of a tile travel through the scratch buffer between blocks.
//
// Sparse weights are the non-zeros and the index of each one's tap in its block: one byte where a
// block has at most 256 taps, else two. Where a bitmask is smaller than such bytes, it is stored in
// their place and expanded to bytes when they are needed, a few rows at a time.
class ConvWeights {
 public:
  // weights: [outputs][taps], taps being (input channel of the group, kernel row, kernel column), in
  // blocks of `block_taps`. Output channels are divided into at least `ranges` ranges, as far as
  // there are channels. Throws std::invalid_argument for a sparse block of too many taps.
  ConvWeights(const float* weights, size_t outputs, size_t taps, size_t groups, size_t block_taps,
              size_t ranges, bool dense);

  // The output channels of range `index` for one tile of rows x vectors.
  void run(size_t index, const TapOffsets& offsets, const float* in, ptrdiff_t row_stride, int rows,
           int vectors, float* out, size_t stride, const float* bias,
           const Epilogue& epilogue) const;

  size_t outputs() const { return outputs_; }
  size_t taps() const { return taps_; }
  size_t groups() const { return groups_; }
  size_t block_taps() const { return block_taps_; }
  bool dense() const { return dense_; }
  size_t range_count() const { return ranges_.size(); }
  Range channels(size_t index) const { return {ranges_[index].begin, ranges_[index].end}; }
  size_t group(size_t index) const { return ranges_[index].group; }
  size_t block_count() const { return ranges_[0].blocks.size(); }
  // Sparse weights of a block, by row (from the range's first channel) and then by tap.
  std::vector<NonZero> non_zeros(size_t index, size_t block) const;
  size_t bytes() const;
  size_t values() const;  // stored, each of which a tile multiplies with

 private:
  struct Block {
    size_t taps = 0;
    std::vector<float> values;    // sparse; or dense: [rows / dense_rows][taps][dense_rows]
    std::vector<uint8_t> masks;   // sparse: for each row, which taps it has; or
    std::vector<uint8_t> small;   // the taps' indices, in here or
    std::vector<uint16_t> large;  // in here
    std::vector<RowTaps> rows;    // sparse: ordered by their number of taps, so that the inner
                                  // loop's length seldom changes and is predicted
  };
  struct ChannelRange {
    size_t begin, end, group;
    std::vector<Block> blocks;
  };
  void add_dense(Block& block, size_t rows, const float* weights, size_t taps) const;
  void add_sparse(Block& block, size_t rows, const float* weights, size_t taps,
                  bool every_row) const;
  void run_masks(const Block& block, const TileInput& from, SparseTile<uint8_t> kernel, float* out,
                 size_t stride, const Accumulation& accumulation) const;

  size_t outputs_, taps_, groups_, block_taps_;
  bool dense_;
  std::vector<ChannelRange> ranges_;
};

}  // namespace skinny
