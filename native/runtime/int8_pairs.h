// Weights and windows of layers in int8 for the kernels of pairs (int8_pairs_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "int8_pairs_kernels.h"
#include "int8_weights.h"
#include "view.h"

namespace skinny {

// Whether a layer is computed this way: where quads have few non-zeros.
bool uses_int8_pairs(const Int8Weights& weights);

// How the cells that a layer reads are unpacked: a window of neighbouring bands at a time. A band is
// a strip of neighbouring pixels, of all rows as one long one with what lies between them; or, where
// that takes fewer vectors, the strips of up to four rows, with a vector of each.
struct PairWindow {
  // offsets: of each tap, in a source whose channels of cells are channel_stride apart, and rows
  // row_stride. None where the planes of a channel have more pixels than 16 bits can number.
  static std::unique_ptr<const PairWindow> make(const std::vector<int32_t>& offsets,
                                                size_t channel_stride, size_t row_stride,
                                                size_t height, size_t width);
  void unpack(size_t window, const float* cells, uint16_t* planes) const;
  size_t last_read() const;  // of an image's cells
  size_t floats() const { return 2 * channels * length; }  // of scratch

  size_t bands() const {
    return in_rows ? divide_up(height, strip_vectors) : divide_up(pixels, advance);
  }
  size_t strips_of_band() const { return in_rows ? divide_up(width, pixels_at_once) : 1; }
  Range strips_of(size_t window) const;
  size_t strip_at(size_t strip) const;  // its first pixel
  size_t vectors(size_t strip) const;
  size_t vectors_before(size_t strip) const;

  bool in_rows;
  size_t height, width, pixels, channel_stride, channels;  // of cells
  size_t apart;                   // pixels from one vector to the next
  size_t advance;                 // from one band to the next
  size_t halo;                    // that taps reach beyond a band
  size_t window_bands, windows;   // of a window; of an image
  size_t length;                  // of a plane, in pixels
  size_t block;                   // channels of cells whose planes fit the first-level cache
};

class Int8Pairs {
 public:
  // Null for pairs of more than `most` bytes.
  static std::unique_ptr<const Int8Pairs> make(const Int8Weights& weights,
                                               const std::vector<int32_t>& offsets,
                                               const PairWindow& window, size_t most);
  // The sums of output channels [pairs_block * block, ..), [8 pixels][row][8].
  void run(size_t block, const uint16_t* strip, size_t vectors, size_t apart, int32_t* sums) const;
  size_t blocks() const { return divide_up(outputs_, pairs_block); }
  size_t rows(size_t block) const;
  size_t bytes() const;

 private:
  // Of a block of output channels, and a block of channels of cells.
  struct Part {
    size_t first;  // of the pairs
    size_t plane;  // of the first channel, in pixels
    std::vector<Int8PairRun> runs;
    std::vector<Int8PairRow> rows;
  };
  Int8Pairs() = default;
  bool add(Part& part, std::vector<std::vector<Int8Pair>>& rows);

  size_t outputs_ = 0;
  std::vector<int32_t> start_;
  std::vector<Int8Pair> pairs_;
  std::vector<std::vector<Part>> parts_;  // of each block of output channels
};

}  // namespace skinny
