#include "runtime/direct_conv.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr int most_vectors = 2;
// Columns at a time: with two vectors of channels each, their sums fill the registers, but for the
// weights and one broadcast element.
constexpr int most_columns = many_registers ? 14 : 6;

// P columns, from `first` on, of C vectors of channels.
template <int C, int P, size_t S>
void columns(const DirectRow& own, size_t first) {
  Vec sum[P][C];
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p)
    for (int c = 0; c < C; ++c) sum[p][c] = load(own.bias + c * V);
  const float* weights = own.weights;
  const size_t stride = S ? S : own.stride;
  for (size_t tap = 0; tap < own.taps; ++tap, weights += C * V) {
    const float* at = own.in[tap] + first * stride;
    asm("" : "+r"(at));  // or compilers keep an offset for each column, more than there are registers
    Vec weight[C];
    for (int c = 0; c < C; ++c) weight[c] = load(weights + c * V);
#pragma GCC unroll 14
    for (int p = 0; p < P; ++p) {
      Vec x = splat(at[static_cast<size_t>(p) * stride]);
      for (int c = 0; c < C; ++c) sum[p][c] += weight[c] * x;
    }
  }
  Vec low = splat(own.low), high = splat(own.high);
  float* out = own.out + first * C * V;
#pragma GCC unroll 14
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
    for (int c = 0; c < C; ++c)
      store(out + (p * C + c) * V, at_most(at_least(sum[p][c], low), high));
}

using Columns = void (*)(const DirectRow&, size_t);

template <int C, size_t S, int... P>
void run_vectors(const DirectRow& own) {
  constexpr Columns kernels[] = {nullptr, columns<C, P, S>...};
  constexpr size_t most = sizeof...(P);
  size_t parts = (own.columns + most - 1) / most;
  for (size_t part = 0; part < parts; ++part) {  // near-equal ones
    size_t begin = own.columns * part / parts, end = own.columns * (part + 1) / parts;
    kernels[end - begin](own, begin);
  }
}

template <int C, size_t S>
void run_columns(const DirectRow& own) {
  if constexpr (most_columns == 14)
    run_vectors<C, S, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>(own);
  else
    run_vectors<C, S, 1, 2, 3, 4, 5, 6>(own);
}

template <size_t S>
void run_stride(const DirectRow& own) {
  if (own.channels > V)
    run_columns<2, S>(own);
  else
    run_columns<1, S>(own);
}

// Strides that are known make addresses that need no registers.
void run(const DirectRow& own) {
  auto chosen = own.stride == 1   ? run_stride<1>
                : own.stride == 2 ? run_stride<2>
                : own.stride == 4 ? run_stride<4>
                                  : run_stride<0>;
  chosen(own);
}

}  // namespace

const DirectConvKernels direct_conv{V, most_vectors * V, run};

}  // namespace skinny::SKINNY_SET
