// The inner loops of depthwise convolutions whose kernels are dense and of a usual size. They read
// rows where they lie, without padding: what lies beside a row is read and masked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

// The columns of a depthwise convolution, stride apart.
struct DepthwiseColumns {
  size_t kernel, stride, padding;
  size_t inputs, outputs;
};

struct DenseDepthwise {
  const float* weights;     // [kernel][kernel]
  const uint32_t* masks;    // of the columns
  // The rows under the output, (rows - 1) * stride + kernel of them. From `padding` floats before a
  // row to the vector after its last output, everything is readable.
  const float* const* in;
  float* out;
  size_t out_stride;
  size_t rows;
  float bias, low, high;
};

using DenseDepthwiseKernel = void (*)(const DepthwiseColumns& columns, const DenseDepthwise& own);

struct DenseDepthwiseKernels {
  // Floats read from column -padding on.
  size_t (*readable)(const DepthwiseColumns& columns);
  // Which inputs exist: [vector of outputs][kernel column][lane]. Returns how many there are, if
  // `to` is null.
  size_t (*masks)(const DepthwiseColumns& columns, uint32_t* to);
  // Null where no kernel is for a size.
  DenseDepthwiseKernel (*choose)(const DepthwiseColumns& columns);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(DenseDepthwiseKernels, dense_depthwise)
