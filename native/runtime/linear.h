// Fully connected layers: y = W x + b for one x (memory-bound: the weights are read once, in their
// packed form), or for many x at a time.
//
// Sparse weights are a bitmask and the values of its ones, row after row: a row is `words` 64-bit
// words, column c is bit (c % 64) of word (c / 64), columns past the last are zero bits. Below one
// non-zero in eight, columns are one byte each, the distance from the one before, which is smaller
// and faster; a longer distance goes by way of values that are zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

struct MaskRows {
  const uint64_t* mask;   // rows * words
  const float* values;
  const uint64_t* first;  // index of each row's first value; and the end of the last
  size_t words;
  size_t rows;
};

struct StepRows {
  const uint8_t* steps;   // from one value's column to the next one's; the first from column 0
  const float* values;
  const uint64_t* first;  // index of each row's first value; and the end of the last
};

struct LinearKernels {
  // x has words * 64 readable floats. Computes y[begin..end).
  void (*mask_one)(const MaskRows& weights, size_t begin, size_t end, const float* x,
                   const float* bias, float* y);
  // x is [columns][n] and y is [rows][n], n a multiple of the lanes.
  void (*mask_many)(const MaskRows& weights, size_t begin, size_t end, const float* x, size_t n,
                    const float* bias, float* y);
  // The same with columns as steps; x is [columns][n].
  void (*step_one)(const StepRows& weights, size_t begin, size_t end, const float* x,
                   const float* bias, float* y);
  void (*step_many)(const StepRows& weights, size_t columns, size_t begin, size_t end,
                    const float* x, size_t n, const float* bias, float* y);
  // The same with dense weights, [rows][cols].
  void (*dense_one)(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                    const float* bias, float* y);
  void (*dense_many)(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                     size_t n, const float* bias, float* y);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(LinearKernels, linear)
