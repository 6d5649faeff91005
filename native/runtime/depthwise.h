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

// Rows of an image, copied with zeros before and after them, divided by the column's residue modulo
// `stride`: entry i of residue r is column i * stride + r - padding. The vector after a residue's
// entries is written, too.
struct PaddedRows {
  const float* from;
  size_t from_stride;
  size_t rows, width;
  size_t stride, padding;
  float* to;
  size_t residue_stride;  // from one residue to the next, and to the next row's first
  size_t entries;         // of a residue
};

struct DepthwiseKernels {
  size_t lanes;
  void (*convolve)(const DepthwiseTaps& taps, const DepthwiseRows& rows);
  void (*pad)(const PaddedRows& rows);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(DepthwiseKernels, depthwise)
