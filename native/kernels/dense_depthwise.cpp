#include "runtime/dense_depthwise.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

// Rows of output computed at a time: enough sums to hide most of an FMA's latency, with registers
// left for a column of weights. Images of 224 columns have multiples of 7 in all their layers.
constexpr int block_rows = 7;

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
  size_t row, column;      // of the output
  size_t columns;          // of the whole output
  ptrdiff_t first;         // column of the input under the first output; negative in the padding
  const uint32_t* masks;
};

// The last vector of each row, where that of the last one must not be written whole.
template <int R>
__attribute__((noinline)) void write_some(const Vec* sum, const DenseDepthwise& own,
                                          const Block& at) {
  size_t joined = own.out_stride == at.columns ? own.rows * at.columns : 0;
  for (size_t r = 0; r < R; ++r) {
    size_t first = (at.row + r) * own.out_stride + at.column;
    if (first + V <= joined)
      store(own.out + first, sum[r]);
    else
      store_some(own.out + first, sum[r], at.columns - at.column);
  }
}

// Blocks of a row are computed from the last to the first, rows from the first to the last: where
// rows follow each other without a gap, a row's last vector may reach into the next rows.
template <int R>
inline void write(Vec (&sum)[R], const DenseDepthwise& own, const Block& at) {
  Vec low = splat(own.low), high = splat(own.high);
  for (int r = 0; r < R; ++r) sum[r] = at_most(at_least(sum[r], low), high);
  size_t first = at.row * own.out_stride + at.column;
  size_t joined = own.out_stride == at.columns ? own.rows * at.columns : 0;
  if (at.column + V > at.columns && first + (R - 1) * own.out_stride + V > joined) {
    Vec kept[R];
    for (int r = 0; r < R; ++r) kept[r] = sum[r];
    return write_some<R>(kept, own, at);
  }
  float* out = own.out + first;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, out += own.out_stride) store(out, sum[r]);
}

// R rows of one vector. Each vector of taps is multiplied with the weights of all outputs it is
// under; a column of the kernel's weights is in registers.
template <int K, int S, int R, bool Edge>
void block(const DenseDepthwise& own, const Block& at) {
  constexpr int under = (R - 1) * S + K;
  const float* const* in = own.in + at.row * S;
  Vec sum[R];
  for (Vec& v : sum) v = splat(own.bias);
#pragma GCC unroll 1
  for (int kx = 0; kx < K; ++kx) {
    Vec weight[K];
    for (int ky = 0; ky < K; ++ky) weight[ky] = splat(own.weights[ky * K + kx]);
    IVec mask;
    if (Edge) memcpy(&mask, at.masks + kx * V, sizeof mask);
#pragma GCC unroll 32
    for (int i = 0; i < under; ++i) {
      Vec v = taps<S>(in[i] + at.first + kx);
      if (Edge) v = reinterpret_cast<Vec>(reinterpret_cast<IVec>(v) & mask);
#pragma GCC unroll 8
      for (int ky = 0; ky < K; ++ky)
        if (i >= ky && (i - ky) % S == 0 && (i - ky) / S < R) sum[(i - ky) / S] += weight[ky] * v;
    }
  }
  if constexpr (S == 2)
    for (Vec& v : sum) v = in_order(v);
  write(sum, own, at);
}

template <int K, int S, int R>
void row_of_blocks(const DepthwiseColumns& columns, const DenseDepthwise& own, size_t row) {
  size_t vectors = (columns.outputs + V - 1) / V;
  for (size_t i = vectors; i-- > 0;) {
    size_t first = i * V * S;  // counted from the padding
    bool edge = first < columns.padding ||
                first + (V - 1) * S + K > columns.inputs + columns.padding;
    Block at{row, i * V, columns.outputs,
             static_cast<ptrdiff_t>(first) - static_cast<ptrdiff_t>(columns.padding),
             own.masks + i * K * V};
    if (edge)
      block<K, S, R, true>(own, at);
    else
      block<K, S, R, false>(own, at);
  }
}

template <int K, int S>
void convolve_as(const DepthwiseColumns& columns, const DenseDepthwise& own) {
  constexpr size_t R = block_rows;
  size_t row = 0;
  if (own.rows >= R)
    for (; row < own.rows; row += R)  // the last rows are computed again where R is no divisor
      row_of_blocks<K, S, R>(columns, own, row + R <= own.rows ? row : own.rows - R);
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
