// Copies between strided tensors.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

struct StridedKernels {
  // to[r * to_stride + c] = from[c * from_stride + r]
  void (*transpose)(const float* from, size_t from_stride, float* to, size_t to_stride, size_t rows,
                    size_t columns);
  // to[i] = from[2 * i]
  void (*every_second)(const float* from, float* to, size_t count);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(StridedKernels, strided)
