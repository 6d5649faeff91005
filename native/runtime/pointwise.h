// Between the weighted layers: activations, sums, local response normalisation.
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

// Windows of local response normalisation, at most, whose result may be written over the input.
constexpr size_t max_lrn_in_place = 32;

struct PointwiseKernels {
  void (*activate)(const Activation& activation, const float* from, float* to, size_t count);
  void (*add)(const float* a, const float* b, float* to, size_t count);
  // to = from * scale + shift
  void (*scale)(const float* from, float* to, size_t count, float scale, float shift);
  // to[c] = from[c] / (k + alpha / size * sum of from[c']^2 over the window)^beta for `count`
  // neighbouring floats of each channel. `to` may be `from` for windows of max_lrn_in_place.
  void (*lrn)(const float* from, float* to, size_t count, size_t channels, size_t channel_stride,
              int size, float alpha, float beta, float k);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(PointwiseKernels, pointwise)
