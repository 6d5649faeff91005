// The product of two dense matrices.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

// c[m][n] = scale * sum over k of a[m][k] b[k][n]. Columns of `b` and `c` are neighbours.
struct MatrixProduct {
  const float* a;
  size_t a_row, a_column;  // strides
  const float* b;
  size_t b_row;
  float* c;
  size_t c_row;
  size_t rows, columns, depth;
  float scale;
};

struct MatmulKernels {
  size_t panel;    // columns that are computed together; threads take whole panels
  size_t scratch;  // floats
  void (*multiply)(const MatrixProduct& product, float* scratch);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(MatmulKernels, matmul)
