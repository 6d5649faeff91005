// Tiles: the register-blocked inner loops of convolution, and of every layer that is one.
//
// A tile is R x C vectors of one input plane, R rows of C neighbouring vectors, kept in registers
// for one output channel at a time. With the taps of an output channel as (offset, weight) pairs
// relative to the tile's first float, a sparse convolution is: for each pair, broadcast the
// weight, multiply with R x C vectors from memory, accumulate. Results go to the vectors at
// out + channel * stride: mostly a scratch buffer, tile_vectors vectors for each channel, where the
// next 1x1 layer finds them in cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

constexpr int tile_vectors = 8;  // most vectors of one tile: enough to hide the latency of an FMA

struct Tap {
  int32_t offset;  // in floats, from the tile's first
  float weight;
};

// `count` taps of output channel `row`.
struct Run {
  int32_t row;
  int32_t count;
};

// What happens to an output value beside the sum: `bias` where a sum begins (else it continues
// from `out`), and clamping to [low, high] where it ends.
struct Edge {
  const float* bias;  // one per row; null when the sum continues
  bool last;
  float low, high;
};

using SparseTile = void (*)(const float* in, ptrdiff_t row_stride, const Tap* taps, const Run* runs,
                            size_t run_count, float* out, size_t stride, const Edge& edge);

// Dense weights of up to dense_rows output channels: for each of `taps` offsets, dense_rows weights.
// The tile is `vectors` vectors at offsets `at`; rows past `rows` are computed and dropped.
using DenseTile = void (*)(const float* in, const ptrdiff_t* at, int vectors,
                           const int32_t* offsets, size_t taps, const float* weights,
                           int first_row, int rows, float* out, size_t stride, const Edge& edge);

struct TileKernels {
  int lanes;       // floats in a vector
  int dense_rows;  // output channels one dense call computes
  SparseTile sparse[tile_vectors + 1][tile_vectors + 1];  // [R][C]; null where R * C is too much
  DenseTile dense;
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(TileKernels, tile)
