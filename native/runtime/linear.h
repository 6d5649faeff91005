// Fully connected layers: y = W x + b for one x (memory-bound: the weights are read once, in their
// packed form), or for many x at a time.
//
// Sparse weights are a bitmask and the values of its ones, row after row: a row is `words` 64-bit
// words, column c is bit (c % 64) of word (c / 64), columns past the last are zero bits. Up to one
// non-zero in four, column indices are delta-encoded in one byte each, which is faster (as measured with
// AVX2 and AVX-512; and smaller below one in eight); explicit zeros bridge a distance of more than 255 columns.
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

struct DeltaRows {
  const uint8_t* deltas;  // from the previous value's column, in a row's first value from column 0
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
  // The same with delta-encoded column indices; x is [columns][n].
  void (*delta_one)(const DeltaRows& weights, size_t begin, size_t end, const float* x,
                    const float* bias, float* y);
  void (*delta_many)(const DeltaRows& weights, size_t columns, size_t begin, size_t end,
                     const float* x, size_t n, const float* bias, float* y);
  // The same with dense weights, [rows][cols].
  void (*dense_one)(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                    const float* bias, float* y);
  void (*dense_many)(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                     size_t n, const float* bias, float* y);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(LinearKernels, linear)
