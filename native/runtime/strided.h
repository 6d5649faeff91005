// Copies between strided tensors.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

struct TakenRows {
  const float* from;
  float* to;
  size_t from_stride, to_stride, count, width;
  size_t step, low, high;
};

struct StridedKernels {
  // to[r * to_stride + c] = from[c * from_stride + r]
  void (*transpose)(const float* from, size_t from_stride, float* to, size_t to_stride, size_t rows,
                    size_t columns);
  // Rows of `width` floats: to[x] = from[x * step] for low <= x < high, else 0. Of `from`,
  // nothing else is read.
  void (*take)(const TakenRows& rows);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(StridedKernels, strided)
