// Everything between the weighted layers: activations, pooling, normalisation, softmax.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

// Parameters a, b: leaky_relu slope; elu alpha; clamp low, high.
enum class Activation : int {
  none, clamp, leaky_relu, elu, sigmoid, tanh, silu, gelu, gelu_tanh, hardswish, hardsigmoid
};

// The windows of one axis of a pooling layer: output i covers inputs begin[i], begin[i] + step, ...
// before end[i]; an average multiplies by scale[i] of both axes.
struct Windows {
  const int32_t* begin;
  const int32_t* end;
  const float* scale;
  int32_t step;
  int32_t count;
  // Windows [regular, irregular) begin the same `stride` apart, are of step 1 and of the same
  // `length`, but for the last ones, which may be cut short: entry k is in those before whole[k].
  // Others than those of length 2 or 3, the usual ones, are never regular.
  static constexpr int32_t longest = 3;
  int32_t regular, irregular, length, stride;
  int32_t whole[longest];
};

constexpr size_t row_slack = 64;

struct PointwiseKernels {
  void (*activate)(Activation kind, float a, float b, const float* from, float* to, size_t count);
  void (*add)(const float* a, const float* b, float* to, size_t count);
  // to = from * scale + shift
  void (*scale)(const float* from, float* to, size_t count, float scale, float shift);
  // to[c] = from[c] / (k + alpha / size * sum of from[c']^2 over the window)^beta for `count`
  // neighbouring floats of each of `channels` planes, `plane` floats apart.
  void (*lrn)(const float* from, float* to, size_t count, size_t channels, size_t plane, int size,
              float alpha, float beta, float k);
  // Over `axis` entries, `inner` floats apart, for each of the `inner` neighbours.
  void (*softmax)(const float* from, float* to, size_t axis, size_t inner, bool log);
  // One row of output, from the `rows` rows of input at row[0], row[1], ..., of `n` images
  // interleaved. `reduced` has room for one of them, `width` columns.
  // Of one image, up to row_slack floats after a row are read.
  void (*pool)(bool max, const float* const* row, size_t rows, float row_scale,
               const Windows& windows, size_t width, size_t n, float* reduced, float* to);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(PointwiseKernels, pointwise)
