// Depthwise convolutions of images whose rows of output fill at most half a vector (AVX-512): a
// vector holds two rows, one in each half.
#pragma once

#include "runtime/dense_depthwise.h"
#include "vector.h"

#if defined(__AVX512F__)
namespace {

bool is_narrow(const skinny::DepthwiseColumns& columns) {
  return columns.outputs <= V / 2 && columns.inputs <= V / 2 * columns.stride &&
         columns.padding == columns.kernel / 2;
}

// Every S-th column of two rows, from each offset; zero where a row has no column.
template <int S>
inline void load_two(const float* a, const float* b, __mmask16 columns, Vec (&to)[S]) {
  if constexpr (S == 1) {
    auto some = static_cast<__mmask8>(columns);
    to[0] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_maskz_loadu_ps(some, a)),
                               _mm256_maskz_loadu_ps(some, b), 1);
  } else {
    Vec first = _mm512_maskz_loadu_ps(columns, a), second = _mm512_maskz_loadu_ps(columns, b);
    to[0] = alternate<0>(first, second);
    to[1] = alternate<1>(first, second);
  }
}

// Lane i of each half is lane i + D of that half of v, or zero.
template <int D>
inline Vec shift(Vec v) {
  if constexpr (D == 0) return v;
  constexpr int kept = D > 0 ? 0xff >> D : (0xff << -D) & 0xff;
  auto lanes = reinterpret_cast<__m512i>(v);
  return reinterpret_cast<Vec>(
      _mm512_maskz_alignr_epi32(static_cast<__mmask16>(kept * 0x101), lanes, lanes, D & (V - 1)));
}

template <int D, int Last>
inline Vec add_shifted(const Vec* sum, int R) {
  Vec v = shift<D>(sum[0]);
  if constexpr (D < Last) v += add_shifted<D + 1, Last>(sum + R, R);
  return v;
}

// R rows of output from row `low` on, and R from row `high` on. A column of the kernel reads the input
// some lanes beside its output: products that lie equally many lanes beside are added up, and then
// shifted together.
template <int K, int S, int R>
void two_rows(const skinny::DepthwiseColumns& columns, const skinny::DenseDepthwise& own,
              size_t low, size_t high) {
  constexpr int before = (K / 2 + S - 1) / S, after = K / 2 / S;  // lanes
  Vec sum[before + 1 + after][R];
  for (int d = 0; d <= before + after; ++d)
    for (Vec& v : sum[d]) v = d == before ? splat(own.bias) : Vec{};
  __mmask16 inputs = first_lanes(columns.inputs);
#pragma GCC unroll 32
  for (int i = 0; i < (R - 1) * S + K; ++i) {
    Vec in[S];
    load_two<S>(own.in[low * S + i], own.in[high * S + i], inputs, in);
#pragma GCC unroll 8
    for (int kx = 0; kx < K; ++kx) {
      int column = kx - K / 2 + before * S;  // under lane 0, from that of sum 0 on
#pragma GCC unroll 8
      for (int ky = 0; ky < K; ++ky)
        if (i >= ky && (i - ky) % S == 0 && (i - ky) / S < R)
          sum[column / S][(i - ky) / S] += splat(own.weights[ky * K + kx]) * in[column % S];
    }
  }
  Vec least = splat(own.low), most = splat(own.high);
  __mmask16 outputs = first_lanes(columns.outputs);
  auto upper = static_cast<__mmask16>(outputs << V / 2);
  size_t stride = own.out_stride;
  float *first = own.out + low * stride, *second = own.out + high * stride;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, first += stride, second += stride) {
    Vec v = at_most(at_least(add_shifted<-before, after>(&sum[0][r], R), least), most);
    _mm512_mask_storeu_ps(first, outputs, v);
    // Not the upper half by itself: masked, vextractf32x8 still faults beside what it writes.
    _mm512_mask_storeu_ps(second - V / 2, upper, v);
  }
}

template <int K, int S, int R>
void rows_in_halves(const skinny::DepthwiseColumns& columns, const skinny::DenseDepthwise& own) {
  size_t last = own.rows - R;  // some rows are computed twice where 2 R is no divisor
  for (size_t row = 0; row < own.rows; row += 2 * R)
    two_rows<K, S, R>(columns, own, row < last ? row : last, row + R < last ? row + R : last);
}

template <int K, int S>
void convolve_narrow(const skinny::DepthwiseColumns& columns, const skinny::DenseDepthwise& own) {
  constexpr int R = 4;  // two times four rows are the seven that images of 224 columns end with
  if (own.rows >= R)
    rows_in_halves<K, S, R>(columns, own);
  else
    rows_in_halves<K, S, 1>(columns, own);
}

}  // namespace
#endif
