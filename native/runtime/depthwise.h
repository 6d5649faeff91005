// The inner loops of depthwise convolutions: every output channel has one input channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

// The taps of one output channel: where each begins, in floats from an output's first.
struct DepthwiseTaps {
  const int32_t* offsets;
  const float* weights;
  size_t count;
};

// Rows of output. `in` has whole vectors to read for every tap, past a row's last column too.
struct DepthwiseRows {
  const float* in;
  size_t in_stride;  // from one output row's taps to the next one's
  float* out;
  size_t out_stride;
  size_t rows, columns;
  float bias, low, high;
};

struct DepthwiseKernels {
  size_t lanes;
  void (*convolve)(const DepthwiseTaps& taps, const DepthwiseRows& rows);
  // even[i] = from[2 i], odd[i] = from[2 i + 1], of `count` floats.
  void (*deinterleave)(const float* from, size_t count, float* even, float* odd);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(DepthwiseKernels, depthwise)
