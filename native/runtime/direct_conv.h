// The inner loop of dense convolutions that read an image where it lies: output channels are the
// lanes of vectors, and an element of the image is broadcast to all of them. So the image's rows may
// be any number of elements apart, and a stride costs nothing; the result has its channels last.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

// One row of the result, of some output channels: whole vectors, `block` channels at most.
struct DirectRow {
  const float* const* in;  // of each tap, what the first column reads
  size_t taps, stride;     // stride: floats from what a column reads to what the next one does
  const float* weights;    // [tap][output channel]
  const float* bias;
  size_t channels;
  float low, high;
  float* out;  // [column][output channel]
  size_t columns;
};

struct DirectConvKernels {
  size_t lanes;
  size_t block;  // output channels of a row, at most: two vectors
  void (*run)(const DirectRow& row);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(DirectConvKernels, direct_conv)
