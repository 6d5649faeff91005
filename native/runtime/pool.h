// Pooling layers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

// The windows of one axis of a pooling layer: output i covers inputs begin[i], begin[i] + dilation,
// ... before end[i]; an average multiplies by scale[i] of both axes.
struct Windows {
  const int32_t* begin;
  const int32_t* end;
  const float* scale;
  int32_t dilation;
  int32_t count;
  // The vectorised case: windows [regular, irregular) begin `stride` apart, with dilation 1, and
  // have `length` (2 or 3) entries each, except the last ones, which the image's edge may cut
  // short: entry k exists in windows before whole[k]. The range is empty for other geometries.
  static constexpr int32_t longest = 3;
  int32_t regular, irregular, length, stride;
  int32_t whole[longest];

  // Whether all are regular, of three entries, two apart; or but for the first, which begins in a
  // padding of one.
  bool by_two() const {
    return irregular == count && stride == 2 && length == 3 && begin[0] == 0 &&
           (regular == 0 || padded());
  }
  bool padded() const { return regular == 1 && begin[0] == 0 && end[0] == 2 && begin[1] == 1; }
};

constexpr size_t row_slack = 64;  // floats that are readable after a row of one image

struct PoolKernels {
  // One row of output, from the `rows` rows of input at row[0], row[1], ..., of `n` images
  // interleaved. `reduced` is scratch for one row of `width` columns.
  // For one image, up to row_slack floats after a row are read.
  void (*row)(bool max, const float* const* row, size_t rows, float row_scale,
              const Windows& windows, size_t width, size_t n, float* reduced, float* to);
  // The same for all rows of a channel of one image. The windows of its columns are by_two(), those
  // of its rows have at most most_rows entries.
  static constexpr size_t most_rows = 3;
  void (*channel)(bool max, const float* from, size_t row_stride, const Windows& rows,
                  const Windows& columns, float* to, size_t to_stride);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(PoolKernels, pool)
