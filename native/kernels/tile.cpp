#include "runtime/tile.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

template <int N>
inline void begin(Vec (&sum)[N], const float* out, int32_t row, const Edge& edge) {
  for (int i = 0; i < N; ++i) sum[i] = edge.bias ? splat(edge.bias[row]) : load(out + i * V);
}

template <int N>
inline void finish(Vec (&sum)[N], float* out, const Edge& edge) {
  if (edge.last) {
    Vec low = splat(edge.low), high = splat(edge.high);
    for (int i = 0; i < N; ++i) sum[i] = at_most(at_least(sum[i], low), high);
  }
  for (int i = 0; i < N; ++i) store(out + i * V, sum[i]);
}

template <int R, int C>
void sparse(const float* in, ptrdiff_t row_stride, const Tap* taps, const Run* runs,
            size_t run_count, float* out, size_t stride, const Edge& edge) {
  for (const Run* run = runs; run != runs + run_count; ++run) {
    float* to = out + static_cast<size_t>(run->row) * stride;
    Vec sum[R * C];
    begin(sum, to, run->row, edge);
    for (const Tap* end = taps + run->count; taps != end; ++taps) {
      const float* at = in + taps->offset;
      Vec weight = splat(taps->weight);
      for (int r = 0; r < R; ++r, at += row_stride)
        for (int c = 0; c < C; ++c) sum[r * C + c] += weight * load(at + c * V);
    }
    finish(sum, to, edge);
  }
}

#if defined(__AVX512F__)
constexpr int M = 6;  // 6 x 4 sums in 32 registers
#else
constexpr int M = 3;  // 3 x 4 sums in 16 registers
#endif

template <int N>
void dense_part(const float* in, const ptrdiff_t* at, const int32_t* offsets, size_t taps,
                const float* weights, int first_row, int rows, float* out, size_t stride,
                const Edge& edge) {
  Vec sum[M][N];
  out += static_cast<size_t>(first_row) * stride;
  for (int m = 0; m < M; ++m)
    if (m < rows)
      begin(sum[m], out + static_cast<size_t>(m) * stride, first_row + m, edge);
    else
      for (int i = 0; i < N; ++i) sum[m][i] = Vec{};
  for (size_t t = 0; t < taps; ++t, weights += M) {
    Vec value[N];
    for (int i = 0; i < N; ++i) value[i] = load(in + offsets[t] + at[i]);
    for (int m = 0; m < M; ++m) {
      Vec weight = splat(weights[m]);
      for (int i = 0; i < N; ++i) sum[m][i] += weight * value[i];
    }
  }
  for (int m = 0; m < M && m < rows; ++m)
    finish(sum[m], out + static_cast<size_t>(m) * stride, edge);
}

void dense(const float* in, const ptrdiff_t* at, int vectors, const int32_t* offsets, size_t taps,
           const float* weights, int first_row, int rows, float* out, size_t stride,
           const Edge& edge) {
  for (int i = 0; i < vectors; i += 4) {
    auto part = vectors - i >= 4   ? dense_part<4>
                : vectors - i == 3 ? dense_part<3>
                : vectors - i == 2 ? dense_part<2>
                                   : dense_part<1>;
    part(in, at + i, offsets, taps, weights, first_row, rows, out + i * V, stride, edge);
  }
}

}  // namespace

const TileKernels tile{
    V,
    M,
    {{},
     {nullptr, sparse<1, 1>, sparse<1, 2>, sparse<1, 3>, sparse<1, 4>, sparse<1, 5>, sparse<1, 6>,
      sparse<1, 7>, sparse<1, 8>},
     {nullptr, sparse<2, 1>, sparse<2, 2>, sparse<2, 3>, sparse<2, 4>},
     {nullptr, sparse<3, 1>, sparse<3, 2>},
     {nullptr, sparse<4, 1>, sparse<4, 2>},
     {nullptr, sparse<5, 1>},
     {nullptr, sparse<6, 1>},
     {nullptr, sparse<7, 1>},
     {nullptr, sparse<8, 1>}},
    dense,
};

}  // namespace skinny::SKINNY_SET
