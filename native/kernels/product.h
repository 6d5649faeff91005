// The register-blocked product of two matrices, which matrix products and attention are made of:
// c[m][n] += a[m][k] b[k][n], the entries of `a` broadcast, `b` and `c` in whole vectors along n.
// In an anonymous namespace, so that each instruction set keeps its own copy.
#pragma once

#include "vector.h"

namespace {

constexpr int product_rows = 6;
constexpr int product_vectors = many_registers ? 4 : 2;  // 24 sums in 32 registers, or 12 in 16
constexpr size_t panel_floats = product_vectors * V;  // columns of `b` that are computed together

// Entry (m, k) at data + m * row + k * column.
struct Broadcast {
  const float* data;
  size_t row, column;
};

// M rows of N vectors. `b` has `depth` rows, at least one, b_stride floats apart. Sums begin at zero,
// or if Add at what `c` holds.
template <int M, int N, bool Add>
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-version-loops-for-strides")))  // or the sums travel through the stack
#endif
void product_tile(const Broadcast& a, const float* b, size_t b_stride, size_t depth, float* c,
                  size_t c_stride) {
  Vec sum[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) sum[m][n] = Add ? load(c + m * c_stride + n * V) : Vec{};
  const float* from = a.data;
  do {
    Vec right[N];
    for (int n = 0; n < N; ++n) right[n] = load(b + n * V);
    for (int m = 0; m < M; ++m) {
      Vec left = splat(from[m * a.row]);
      for (int n = 0; n < N; ++n) sum[m][n] += left * right[n];
    }
    from += a.column;
    b += b_stride;
  } while (--depth);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) store(c + m * c_stride + n * V, sum[m][n]);
}

template <int M, int N>
inline void product_tile(const Broadcast& a, const float* b, size_t b_stride, size_t depth,
                         bool add, float* c, size_t c_stride) {
  (add ? product_tile<M, N, true> : product_tile<M, N, false>)(a, b, b_stride, depth, c, c_stride);
}

using ProductTile = void (*)(const Broadcast& a, const float* b, size_t b_stride, size_t depth,
                             bool add, float* c, size_t c_stride);

template <int M>
ProductTile product_tile_of(size_t vectors) {
  if constexpr (product_vectors == 4) {
    if (vectors == 4) return product_tile<M, 4>;
    if (vectors == 3) return product_tile<M, 3>;
  }
  return vectors == 2 ? product_tile<M, 2> : product_tile<M, 1>;
}

inline ProductTile product_tile_of(size_t rows, size_t vectors) {
  static_assert(product_rows == 6);
  switch (rows) {
    case 1: return product_tile_of<1>(vectors);
    case 2: return product_tile_of<2>(vectors);
    case 3: return product_tile_of<3>(vectors);
    case 4: return product_tile_of<4>(vectors);
    case 5: return product_tile_of<5>(vectors);
    default: return product_tile_of<6>(vectors);
  }
}

// c[rows][vectors * V], all of whose vectors may be read and written.
inline void product(const Broadcast& a, const float* b, size_t b_stride, size_t rows,
                    size_t vectors, size_t depth, bool add, float* c, size_t c_stride) {
  for (size_t m = 0; m < rows; m += product_rows) {
    size_t high = rows - m < product_rows ? rows - m : product_rows;
    Broadcast own{a.data + m * a.row, a.row, a.column};
    for (size_t n = 0; n < vectors; n += product_vectors) {
      size_t wide = vectors - n < product_vectors ? vectors - n : product_vectors;
      product_tile_of(high, wide)(own, b + n * V, b_stride, depth, add, c + m * c_stride + n * V,
                                  c_stride);
    }
  }
}

// c[rows][N * V] for N vectors, all of which may be read and written: as many rows at a time as the
// registers have room for.
template <int N, int M = (product_rows * product_vectors) / N>
inline void product_columns(const Broadcast& a, const float* b, size_t b_stride, size_t rows,
                            size_t depth, bool add, float* c, size_t c_stride) {
  size_t m = 0;
  for (; m + M <= rows; m += M)
    product_tile<M, N>({a.data + m * a.row, a.row, a.column}, b, b_stride, depth, add,
                       c + m * c_stride, c_stride);
  if constexpr (M > 1)
    if (m < rows)
      product_columns<N, M / 2>({a.data + m * a.row, a.row, a.column}, b, b_stride, rows - m,
                                depth, add, c + m * c_stride, c_stride);
}

}  // namespace
