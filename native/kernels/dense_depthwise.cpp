#include "runtime/dense_depthwise.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

// Rows of output computed at a time: with two vectors of each, or one, there are enough sums to hide
// most of an FMA's latency, and registers left for a column of weights.
constexpr size_t wide_rows = 4, narrow_rows = 7;

// The lanes of even index of two neighbouring vectors, in the order that takes one instruction;
// in_order() undoes it.
inline Vec even_lanes(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

inline Vec in_order(Vec v) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(v, v, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
#elif defined(__AVX2__)
  return __builtin_shufflevector(v, v, 0, 1, 4, 5, 2, 3, 6, 7);
#else
  return v;
#endif
}

// Lane i of a vector of taps is of output output_of(i).
size_t output_of(size_t stride, size_t lane) {
  return stride == 1 ? lane : lane % 4 / 2 * (V / 2) + lane / 4 * 2 + lane % 2;
}

template <int S>
inline Vec taps(const float* at) {
  if constexpr (S == 1) return load(at);
  else return even_lanes(load(at), load(at + V));
}

struct Block {
  size_t row, vector;
  size_t columns;  // of the whole output
  size_t padding;
};

// Blocks of a row are computed from the last to the first, rows from the first to the last: where
// rows follow each other without a gap, a row's last vector may reach into the next rows.
template <int R, int C>
__attribute__((noinline)) void write_some(const Vec* sum, const DenseDepthwise& own,
                                          const Block& at) {
  size_t column = at.vector * V, left = at.columns - column;
  size_t lanes = left < C * V ? left - (C - 1) * V : static_cast<size_t>(V);
  size_t joined = own.out_stride == at.columns ? own.rows * at.columns : 0;
  for (size_t r = 0; r < R; ++r) {
    size_t first = (at.row + r) * own.out_stride + column;
    bool whole = lanes == V || first + C * V <= joined;
#pragma GCC unroll 1
    for (size_t c = 0; c < C; ++c, ++sum) {
      float* out = own.out + first + c * V;
      if (whole || c + 1 < C)
        store(out, *sum);
      else
        store_some(out, *sum, lanes);
    }
  }
}

template <int R, int C>
inline void write(Vec (&sum)[R][C], const DenseDepthwise& own, const Block& at) {
  Vec low = splat(own.low), high = splat(own.high);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = at_most(at_least(sum[r][c], low), high);
  size_t first = at.row * own.out_stride + at.vector * V;
  size_t end = first + (R - 1) * own.out_stride + C * V;
  bool whole = at.vector * V + C * V <= at.columns ||
               (own.out_stride == at.columns && end <= own.rows * at.columns);
  if (!whole) {
    Vec kept[R][C];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < C; ++c) kept[r][c] = sum[r][c];
    write_some<R, C>(kept[0], own, at);
    return;
  }
  float* out = own.out + first;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, out += own.out_stride)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) store(out + c * V, sum[r][c]);
}

// R rows of C vectors. Each vector of taps is multiplied with the weights of all outputs it is
// under; a column of the kernel's weights is in registers.
template <int K, int S, int R, int C, bool Edge>
void block(const DenseDepthwise& own, const Block& at) {
  constexpr int under = (R - 1) * S + K;
  const float* const* in = own.in + at.row * S;
  ptrdiff_t first = static_cast<ptrdiff_t>(at.vector * V * S) - static_cast<ptrdiff_t>(at.padding);
  const uint32_t* masks = own.masks + at.vector * K * V;
  Vec sum[R][C];
  for (auto& row : sum)
    for (Vec& v : row) v = splat(own.bias);
#pragma GCC unroll 1
  for (int kx = 0; kx < K; ++kx) {
    Vec weight[K];
    for (int ky = 0; ky < K; ++ky) weight[ky] = splat(own.weights[ky * K + kx]);
    IVec mask[C];
    for (int c = 0; c < C; ++c)
      if (Edge) memcpy(&mask[c], masks + (c * K + kx) * V, sizeof mask[c]);
#pragma GCC unroll 32
    for (int i = 0; i < under; ++i) {
      const float* from = in[i] + first + kx;
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) {
        Vec v = taps<S>(from + c * V * S);
        if (Edge) v = reinterpret_cast<Vec>(reinterpret_cast<IVec>(v) & mask[c]);
#pragma GCC unroll 8
        for (int ky = 0; ky < K; ++ky)
          if (i >= ky && (i - ky) % S == 0 && (i - ky) / S < R)
            sum[(i - ky) / S][c] += weight[ky] * v;
      }
    }
  }
  if constexpr (S == 2)
    for (auto& row : sum)
      for (Vec& v : row) v = in_order(v);
  write(sum, own, at);
}

// R rows of output, of pairs of vectors; an odd number of vectors ends with a single one.
template <int K, int S, int R>
void row_of_blocks(const DepthwiseColumns& columns, const DenseDepthwise& own, size_t row) {
  Block at{row, (columns.outputs + V - 1) / V, columns.outputs, columns.padding};
  if (at.vector % 2) {
    --at.vector;
    block<K, S, R, 1, true>(own, at);
  }
  while (at.vector) {
    size_t end = at.vector * V;
    at.vector -= 2;
    bool edge = at.vector * V * S < columns.padding ||
                (end - 1) * S + K > columns.inputs + columns.padding;
    if (edge)
      block<K, S, R, 2, true>(own, at);
    else
      block<K, S, R, 2, false>(own, at);
  }
}

template <int K, int S>
void narrow_block(const DepthwiseColumns& columns, const DenseDepthwise& own, size_t row) {
  block<K, S, narrow_rows, 1, true>(own, {row, 0, columns.outputs, columns.padding});
}

template <int K, int S>
void convolve_as(const DepthwiseColumns& columns, const DenseDepthwise& own) {
  bool narrow = columns.outputs <= V && own.rows >= narrow_rows;
  size_t rows = narrow ? narrow_rows : wide_rows;
  auto some = narrow ? narrow_block<K, S> : row_of_blocks<K, S, wide_rows>;
  size_t row = 0;
  if (own.rows >= rows)
    for (; row < own.rows; row += rows)  // the last ones are computed again where `rows` is no divisor
      some(columns, own, row + rows <= own.rows ? row : own.rows - rows);
  for (; row < own.rows; ++row) row_of_blocks<K, S, 1>(columns, own, row);
}

size_t readable(const DepthwiseColumns& columns) {
  return (columns.outputs + V - 1) / V * V * columns.stride + columns.kernel;
}

size_t make_masks(const DepthwiseColumns& columns, uint32_t* to) {
  size_t count = (columns.outputs + V - 1) / V * columns.kernel * V;
  for (size_t i = 0; to && i < count; ++i) {
    size_t vector = i / V / columns.kernel, kx = i / V % columns.kernel;
    size_t output = vector * V + output_of(columns.stride, i % V);
    size_t column = output * columns.stride + kx;  // counted from the padding
    bool exists = column >= columns.padding && column < columns.padding + columns.inputs;
    to[i] = exists ? ~uint32_t{0} : 0;
  }
  return count;
}

using Convolve = void (*)(const DepthwiseColumns&, const DenseDepthwise&);

Convolve kernel_for(size_t kernel, size_t stride) {
  if (stride != 1 && stride != 2) return nullptr;
  if (kernel == 3) return stride == 1 ? convolve_as<3, 1> : convolve_as<3, 2>;
  if (kernel == 5) return stride == 1 ? convolve_as<5, 1> : convolve_as<5, 2>;
  if (kernel == 7 && stride == 1) return convolve_as<7, 1>;
  return nullptr;
}

bool supports(size_t kernel, size_t stride) { return kernel_for(kernel, stride) != nullptr; }

void convolve(const DepthwiseColumns& columns, const DenseDepthwise& own) {
  kernel_for(columns.kernel, columns.stride)(columns, own);
}

}  // namespace

const DenseDepthwiseKernels dense_depthwise{readable, make_masks, supports, convolve};

}  // namespace skinny::SKINNY_SET
