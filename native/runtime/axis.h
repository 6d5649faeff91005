// What goes along one axis of a tensor: normalisation, softmax, reductions. Each has two forms:
// `columns`, for `inner` neighbouring floats at each of the axis's entries, which lie `stride`
// floats apart, with a lane for each neighbour; and `row`, for neighbouring entries, with lanes along
// the axis.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

// weight (x - mean) / sqrt(variance + eps) + bias; without the mean, x / sqrt(mean of x^2 + eps).
struct Normalisation {
  const float *weight, *bias;  // one for each entry of the axis, or null
  float eps;
  bool subtract_mean;
};

enum class ReduceKind : int { sum, mean, max, min };

struct AxisKernels {
  int column_floats;  // neighbours that `columns` computes at a time
  void (*norm_columns)(const float* from, size_t from_stride, float* to, size_t to_stride,
                       size_t axis, size_t inner, const Normalisation& norm);
  void (*norm_row)(const float* from, float* to, size_t axis, const Normalisation& norm);
  void (*softmax_columns)(const float* from, size_t from_stride, float* to, size_t to_stride,
                          size_t axis, size_t inner, bool log);
  void (*softmax_row)(const float* from, float* to, size_t axis, bool log);
  void (*reduce_columns)(ReduceKind kind, const float* from, size_t stride, size_t axis,
                         size_t inner, float* to);
  float (*reduce_row)(ReduceKind kind, const float* from, size_t axis);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(AxisKernels, axis)
