#include "runtime/depthwise.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

// R rows of C vectors, the last of which has `lanes` lanes.
template <int R, int C>
void tile(const DepthwiseTaps& taps, const DepthwiseRows& own, size_t row, size_t column,
          size_t lanes) {
  const float* in = own.in + row * own.in_stride + column;
  Vec sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = splat(own.bias);
  for (size_t t = 0; t < taps.count; ++t) {
    const float* at = in + taps.offsets[t];
    Vec weight = splat(taps.weights[t]);
    for (int r = 0; r < R; ++r, at += own.in_stride)
      for (int c = 0; c < C; ++c) sum[r][c] += weight * load(at + c * V);
  }
  Vec low = splat(own.low), high = splat(own.high);
  float* out = own.out + row * own.out_stride + column;
  for (int r = 0; r < R; ++r, out += own.out_stride) {
    for (int c = 0; c < C; ++c) sum[r][c] = at_most(at_least(sum[r][c], low), high);
    for (int c = 0; c + 1 < C; ++c) store(out + c * V, sum[r][c]);
    if (lanes == V)
      store(out + (C - 1) * V, sum[r][C - 1]);
    else
      store_some(out + (C - 1) * V, sum[r][C - 1], lanes);
  }
}

using Tile = void (*)(const DepthwiseTaps&, const DepthwiseRows&, size_t, size_t, size_t);

constexpr size_t sums = 8;  // of a tile, at most: enough to hide the latency of an FMA
// [C][R]
constexpr Tile tiles[sums + 1][sums + 1] = {
    {},
    {nullptr, tile<1, 1>, tile<2, 1>, tile<3, 1>, tile<4, 1>, tile<5, 1>, tile<6, 1>, tile<7, 1>,
     tile<8, 1>},
    {nullptr, tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>},
    {nullptr, tile<1, 3>, tile<2, 3>},
    {nullptr, tile<1, 4>, tile<2, 4>},
    {nullptr, tile<1, 5>},
    {nullptr, tile<1, 6>},
    {nullptr, tile<1, 7>},
    {nullptr, tile<1, 8>}};

void convolve(const DepthwiseTaps& taps, const DepthwiseRows& own) {
  size_t widest = own.rows > 1 ? sums / 2 : sums;
  for (size_t column = 0; column < own.columns;) {
    size_t left = own.columns - column, vectors = (left + V - 1) / V;
    size_t wide = vectors < widest ? vectors : widest, high = sums / wide;
    size_t lanes = left < wide * V ? left - (wide - 1) * V : static_cast<size_t>(V);
    for (size_t row = 0; row < own.rows;) {
      size_t rows = own.rows - row < high ? own.rows - row : high;
      tiles[wide][rows](taps, own, row, column, lanes);
      row += rows;
    }
    column += wide * V;
  }
}

void deinterleave(const float* from, size_t count, float* even, float* odd) {
  size_t i = 0;
  for (; i + 2 * V <= count; i += 2 * V) {
    Vec a = load(from + i), b = load(from + i + V);
    store(even + i / 2, alternate<0>(a, b));
    store(odd + i / 2, alternate<1>(a, b));
  }
  for (; i < count; ++i) (i % 2 ? odd : even)[i / 2] = from[i];
}

}  // namespace

const DepthwiseKernels depthwise{V, convolve, deinterleave};

}  // namespace skinny::SKINNY_SET
