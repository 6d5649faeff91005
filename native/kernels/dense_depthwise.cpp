#include "runtime/dense_depthwise.h"

#include "narrow_depthwise.h"
#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

// Rows of output computed at a time: enough sums to hide most of an FMA's latency, with registers
// left for a column of weights. Images of 224 columns have multiples of 7 in all their layers.
constexpr int block_rows = 7;

// The lanes of even (odd) index of two neighbouring vectors. With AVX2, in the order that takes one
// instruction; in_order() undoes it.
#if defined(__AVX2__) && !defined(__AVX512F__)
inline Vec even_lanes(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
}
inline Vec odd_lanes(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}
inline Vec in_order(Vec v) { return __builtin_shufflevector(v, v, 0, 1, 4, 5, 2, 3, 6, 7); }
// Lane i of a vector of taps is of output output_of(i).
size_t output_of(size_t stride, size_t lane) {
  return stride == 1 ? lane : lane % 4 / 2 * (V / 2) + lane / 4 * 2 + lane % 2;
}
#else
inline Vec even_lanes(Vec a, Vec b) { return alternate<0>(a, b); }
inline Vec odd_lanes(Vec a, Vec b) { return alternate<1>(a, b); }
inline Vec in_order(Vec v) { return v; }
size_t output_of(size_t, size_t lane) { return lane; }
#endif

struct Block {
  size_t row, column;      // of the output
  size_t columns;          // of the whole output
  ptrdiff_t first;         // column of the input under the first output; negative in the padding
  const uint32_t* masks;
};

#if defined(__AVX512F__)
// The last vector of each row: a masked store takes no longer than another.
template <int R>
inline void write_some(const Vec (&sum)[R], const DenseDepthwise& own, const Block& at) {
  float* out = own.out + at.row * own.out_stride + at.column;
  size_t lanes = at.columns - at.column;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, out += own.out_stride) store_some(out, sum[r], lanes);
}
#else
// The last vector of each row, where that of the last one must not be written whole.
template <int R>
__attribute__((noinline)) void write_rows(const Vec* sum, const DenseDepthwise& own,
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

template <int R>
inline void write_some(const Vec (&sum)[R], const DenseDepthwise& own, const Block& at) {
  Vec kept[R];  // in memory, so that the sums need not be
  for (int r = 0; r < R; ++r) kept[r] = sum[r];
  write_rows<R>(kept, own, at);
}
#endif

// Blocks of a row are computed from the last to the first, rows from the first to the last: where
// rows follow each other without a gap, a row's last vector may reach into the next rows.
template <int R>
inline void write(Vec (&sum)[R], const DenseDepthwise& own, const Block& at) {
  Vec low = splat(own.low), high = splat(own.high);
  for (int r = 0; r < R; ++r) sum[r] = at_most(at_least(sum[r], low), high);
  size_t first = at.row * own.out_stride + at.column;
  size_t joined = own.out_stride == at.columns ? own.rows * at.columns : 0;
  if (at.column + V > at.columns && first + (R - 1) * own.out_stride + V > joined)
    return write_some<R>(sum, own, at);
  float* out = own.out + first;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, out += own.out_stride) store(out, sum[r]);
}

// Which of a vector's taps exist. With AVX-512, a mask costs nothing where it is part of a load.
#if defined(__AVX512F__)
using Mask = __mmask16;
inline Mask load_mask(const uint32_t* from) {
  __m512i bits = _mm512_loadu_si512(from);
  return _mm512_test_epi32_mask(bits, bits);
}
inline Vec masked(Vec v, Mask mask) { return _mm512_maskz_mov_ps(mask, v); }
inline Vec load_masked(const float* at, Mask mask) { return _mm512_maskz_loadu_ps(mask, at); }
#else
using Mask = IVec;
inline Mask load_mask(const uint32_t* from) {
  IVec bits;
  memcpy(&bits, from, sizeof bits);
  return bits;
}
inline Vec masked(Vec v, Mask mask) {
  return reinterpret_cast<Vec>(reinterpret_cast<IVec>(v) & mask);
}
inline Vec load_masked(const float* at, Mask mask) { return masked(load(at), mask); }
#endif

template <int S, bool Edge>
inline Vec taps(const float* at, Mask mask) {
  if constexpr (S == 1) return Edge ? load_masked(at, mask) : load(at);
  Vec v = even_lanes(load(at), load(at + V));
  return Edge ? masked(v, mask) : v;
}

// All taps of a row of a 3x3 kernel. With a stride of two, those of even and odd columns share their
// loads; with AVX-512 the first tap, too: it is the last one of the output before.
template <int S, bool Edge>
inline void row_taps(const float* at, const Mask* masks, Vec (&tap)[3]) {
  if constexpr (S == 1) {
    for (int kx = 0; kx < 3; ++kx)
      tap[kx] = Edge ? load_masked(at + kx, masks[kx]) : load(at + kx);
  } else {
#if defined(__AVX512F__)
    Vec a = load(at + 1), b = load(at + 1 + V), first = splat(at[0]);
    tap[1] = even_lanes(a, b);
    tap[2] = odd_lanes(a, b);
    for (int kx = 1; Edge && kx < 3; ++kx) tap[kx] = masked(tap[kx], masks[kx]);
    if (Edge) first = masked(first, masks[0]);
    auto last = reinterpret_cast<__m512i>(tap[2]);
    tap[0] = reinterpret_cast<Vec>(_mm512_mask_alignr_epi32(reinterpret_cast<__m512i>(first), 0xfffe,
                                                            last, last, V - 1));
#else
    Vec a = load(at), b = load(at + V);
    tap[0] = even_lanes(a, b);
    tap[1] = odd_lanes(a, b);
    tap[2] = even_lanes(load(at + 2), load(at + 2 + V));
    for (int kx = 0; Edge && kx < 3; ++kx) tap[kx] = masked(tap[kx], masks[kx]);
#endif
  }
}

// Row i of the input times a column of weights, for each output that it is under.
template <int K, int S, int R>
inline void add_row(Vec (&sum)[R], int i, Vec tap, const Vec* weights) {
#pragma GCC unroll 8
  for (int ky = 0; ky < K; ++ky)
    if (i >= ky && (i - ky) % S == 0 && (i - ky) / S < R) sum[(i - ky) / S] += weights[ky] * tap;
}

template <int K>
inline void load_weights(const DenseDepthwise& own, int kx, Vec* weights) {
  for (int ky = 0; ky < K; ++ky) weights[ky] = splat(own.weights[ky * K + kx]);
}

// R rows of one vector. Where registers hold all weights, the taps of a row are loaded together;
// elsewhere the kernel's columns come one after the other.
template <int K, int S, int R, bool Edge>
void block(const DenseDepthwise& own, const Block& at) {
  constexpr int under = (R - 1) * S + K;
  const float* const* in = own.in + at.row * S;
  Vec sum[R];
  for (Vec& v : sum) v = splat(own.bias);
  if constexpr (many_registers && K == 3) {
    Vec weights[K][K], tap[K];
    Mask masks[K];
    for (int kx = 0; kx < K; ++kx) load_weights<K>(own, kx, weights[kx]);
    for (int kx = 0; Edge && kx < K; ++kx) masks[kx] = load_mask(at.masks + kx * V);
#pragma GCC unroll 32
    for (int i = 0; i < under; ++i) {
      row_taps<S, Edge>(in[i] + at.first, masks, tap);
      for (int kx = 0; kx < K; ++kx) add_row<K, S, R>(sum, i, tap[kx], weights[kx]);
    }
  } else {
#pragma GCC unroll 1
    for (int kx = 0; kx < K; ++kx) {
      Vec weights[K];
      Mask mask{};
      load_weights<K>(own, kx, weights);
      if (Edge) mask = load_mask(at.masks + kx * V);
#pragma GCC unroll 32
      for (int i = 0; i < under; ++i)
        add_row<K, S, R>(sum, i, taps<S, Edge>(in[i] + at.first + kx, mask), weights);
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

template <int K, int S>
DenseDepthwiseKernel kernel_for(const DepthwiseColumns& columns) {
#if defined(__AVX512F__)
  if (is_narrow(columns)) return convolve_narrow<K, S>;
#endif
  return convolve_as<K, S>;
}

DenseDepthwiseKernel choose(const DepthwiseColumns& columns) {
  bool two = columns.stride == 2;
  if (columns.stride != 1 && !two) return nullptr;
  if (columns.kernel == 3) return two ? kernel_for<3, 2>(columns) : kernel_for<3, 1>(columns);
  if (columns.kernel == 5) return two ? kernel_for<5, 2>(columns) : kernel_for<5, 1>(columns);
  if (columns.kernel == 7 && !two) return convolve_as<7, 1>;
  return nullptr;
}

}  // namespace

const DenseDepthwiseKernels dense_depthwise{readable, make_masks, choose};

}  // namespace skinny::SKINNY_SET
