// Tiles: the register-blocked inner loops of convolution, and of every layer that is one.
//
// A tile is R x C vectors of one input plane, R rows of C neighbouring vectors, kept in registers
// for one output channel at a time. A tap has a number, which a table turns into an offset from the
// tile's first float. A sparse convolution is: for each tap of an output channel that has a weight,
// broadcast the weight, multiply with R x C vectors from memory, accumulate. Results go to the vectors at
// out + channel * stride: mostly a scratch buffer, tile_vectors vectors for each channel, where the
// next 1x1 layer finds them in cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

constexpr int tile_vectors = 8;  // most vectors of one tile: enough to hide the latency of an FMA
constexpr size_t tap_slack = 2;      // numbers of taps that are readable after the last
constexpr size_t mask_slack = 7;     // bytes that are readable after the last mask
constexpr size_t number_slack = 64;  // bytes that expand() may write after the last number

// What a tile reads: tap t of row r begins at data + r * row_stride + offsets[t].
struct TileInput {
  const float* data;
  ptrdiff_t row_stride;
  const int32_t* offsets;
};

// So many taps of a row, an output channel.
struct Run {
  uint16_t row, taps;
};

// Non-zeros by the number of each, run after run.
template <class Number>
struct SparseTaps {
  const Number* numbers;
  const float* values;
  const Run* runs;
  size_t run_count;
};

// All taps: for dense_rows rows at a time, the weights of each tap. The last rows may be missing;
// their weights are there.
struct DenseTaps {
  const float* weights;
  size_t taps, rows;
};

// What happens to an output value beside the sum: `bias` where a sum begins (else it continues
// from `out`), and clamping to [low, high] where it ends.
struct Edge {
  const float* bias;  // one per row; null when the sum continues
  bool last;
  float low, high;
};

template <class Number>
using SparseTile = void (*)(const TileInput& in, const SparseTaps<Number>& taps, float* out,
                            size_t stride, const Edge& edge);

struct TileKernels {
  int lanes;       // floats in a vector
  int dense_rows;  // output channels the dense kernel computes at a time
  // The numbers of the ones in each of `rows` masks of `bytes` bytes (at most 32), low bit first,
  // one list after the other and tap_slack zeros. Returns how many there are, zeros not counted.
  size_t (*expand)(const uint8_t* masks, size_t rows, size_t bytes, uint8_t* numbers);
  // [R][C]; null where R * C is too much
  SparseTile<uint8_t> small[tile_vectors + 1][tile_vectors + 1];
  SparseTile<uint16_t> large[tile_vectors + 1][tile_vectors + 1];
  void (*dense)(const TileInput& in, int rows, int vectors, const DenseTaps& taps, float* out,
                size_t stride, const Edge& edge);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(TileKernels, tile)
