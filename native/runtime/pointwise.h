// Between the weighted layers: activations, pooling, local response normalisation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

enum class ActivationKind : int {
  none, clamp, leaky_relu, elu, sigmoid, tanh, silu, gelu, gelu_tanh, hardswish, hardsigmoid
};

// a, b: low and high of clamp; a: slope of leaky_relu, alpha of elu.
struct Activation {
  ActivationKind kind = ActivationKind::none;
  float a = 0, b = 0;
};

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
};

constexpr size_t row_slack = 64;

struct PointwiseKernels {
  void (*activate)(const Activation& activation, const float* from, float* to, size_t count);
  void (*add)(const float* a, const float* b, float* to, size_t count);
  // to = from * scale + shift
  void (*scale)(const float* from, float* to, size_t count, float scale, float shift);
  // to[c] = from[c] / (k + alpha / size * sum of from[c']^2 over the window)^beta for `count`
  // neighbouring floats of each channel.
  void (*lrn)(const float* from, float* to, size_t count, size_t channels, size_t channel_stride,
              int size, float alpha, float beta, float k);
  // Windows of an axis that pool_channel takes, at most: all regular, of three entries, two apart.
  size_t narrow;
  // All rows of a channel of one image, in the order of additions of `pool`. Reads up to row_slack
  // floats after a row.
  void (*pool_channel)(bool max, const float* from, size_t row_stride, const Windows& rows,
                       const Windows& columns, float* to, size_t to_stride);
  // One row of output, from the `rows` rows of input at row[0], row[1], ..., of `n` images
  // interleaved. `reduced` is scratch for one row of `width` columns.
  // For one image, up to row_slack floats after a row are read.
  void (*pool)(bool max, const float* const* row, size_t rows, float row_scale,
               const Windows& windows, size_t width, size_t n, float* reduced, float* to);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(PointwiseKernels, pointwise)
