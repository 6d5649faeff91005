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

// Zeros in whole vectors, as many as cover [begin, end).
inline void zero(float* to, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i += V) store(to + i, Vec{});
}

inline Vec load_up_to(const float* from, size_t count) {
  return count >= V ? load(from) : load_some(from, count);
}

void pad_row(const PaddedRows& own, const float* from, float* to) {
  size_t left = own.padding < own.entries ? own.padding : own.entries;
  size_t room = own.entries - left, width = own.width < room ? own.width : room;
  zero(to, 0, left);
  for (size_t i = 0; i < width; i += V) store(to + left + i, load_up_to(from + i, width - i));
  zero(to, left + (width + V - 1) / V * V, own.entries);
}

// The even columns have one residue, the odd ones the other; which is which, the padding tells.
void pad_row_by_two(const PaddedRows& own, const float* from, float* to) {
  size_t odd = own.padding % 2, half = own.padding / 2;
  float* even_residue = to + odd * own.residue_stride;
  float* odd_residue = to + (1 - odd) * own.residue_stride;
  size_t even_left = half < own.entries ? half : own.entries;
  size_t odd_left = half + odd < own.entries ? half + odd : own.entries;
  zero(even_residue, 0, even_left);
  zero(odd_residue, 0, odd_left);
  size_t most = 2 * (own.entries - even_left) - (odd_left - even_left);
  size_t width = own.width < most ? own.width : most;
  for (size_t i = 0; i < width; i += 2 * V) {
    Vec a = load_up_to(from + i, width - i);
    Vec b = width - i > V ? load_up_to(from + i + V, width - i - V) : Vec{};
    store(even_residue + even_left + i / 2, alternate<0>(a, b));
    store(odd_residue + odd_left + i / 2, alternate<1>(a, b));
  }
  size_t copied = (width + 2 * V - 1) / (2 * V) * V;
  zero(even_residue, even_left + copied, own.entries);
  zero(odd_residue, odd_left + copied, own.entries);
}

void pad_row_by_any(const PaddedRows& own, const float* from, float* to) {
  for (size_t residue = 0; residue < own.stride; ++residue)
    zero(to + residue * own.residue_stride, 0, own.entries);
  for (size_t x = 0; x < own.width; ++x) {
    size_t at = x + own.padding;
    if (at / own.stride >= own.entries) break;
    to[at % own.stride * own.residue_stride + at / own.stride] = from[x];
  }
}

void pad(const PaddedRows& own) {
  auto one = own.stride == 1 ? pad_row : own.stride == 2 ? pad_row_by_two : pad_row_by_any;
  for (size_t row = 0; row < own.rows; ++row)
    one(own, own.from + row * own.from_stride, own.to + row * own.stride * own.residue_stride);
}

}  // namespace

const DepthwiseKernels depthwise{V, convolve, pad};

}  // namespace skinny::SKINNY_SET
