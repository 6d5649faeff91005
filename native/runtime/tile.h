// Tiles: the register-blocked inner loops of convolution, and of every layer that is one.
//
// A tile is R x C vectors of one channel, R rows of C neighbouring vectors, accumulated in
// registers for one output channel at a time. A tap is an (input channel, kernel row, kernel
// column); it is stored as its index in a table of offsets, in floats from the tile's first. A
// sparse convolution is: for each tap of an output channel that has a weight, broadcast the weight,
// multiply it with R x C vectors from memory, accumulate. Results go to out + channel * stride:
// mostly a scratch buffer, scratch_stride floats for each channel, where the next 1x1 layer finds
// them in cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"
#include "pointwise.h"

namespace skinny {

constexpr int tile_vectors = 8;  // at most, in one tile: enough to hide the latency of an FMA

// Floats from one channel of a scratch buffer to the next. An odd number of cache lines: with a power
// of two, the same vector of all channels would lie in a few sets of the first-level cache.
constexpr size_t scratch_stride(size_t lanes) { return tile_vectors * lanes + 16; }
// At most, taps of one block, whose indices are bytes; and of a block with 16-bit indices.
constexpr size_t max_byte_taps = 256;
constexpr size_t max_taps = (size_t{1} << 16) - 1;
constexpr size_t tap_slack = 2;     // indices that are readable after the last
constexpr size_t mask_slack = 7;    // bytes that are readable after the last mask
constexpr size_t index_slack = 64;  // bytes that expand() may write after the last index

// What a tile reads: tap t of row r begins at data + r * row_stride + offsets[t]. Where tap_stride is
// not zero, offsets[t] is t * tap_stride.
struct TileInput {
  const float* data;
  ptrdiff_t row_stride;
  const int32_t* offsets;
  ptrdiff_t tap_stride;
};

// The number of taps of one row of weights (an output channel).
struct RowTaps {
  uint16_t row, taps;
};

// Non-zero weights and the indices of their taps, row after row.
template <class Index>
struct SparseTaps {
  const Index* indices;
  const float* values;
  const RowTaps* rows;
  size_t row_count;
};

// All taps: for dense_rows rows at a time, the weights of each tap. Rows after the last have
// weights of zero in memory.
struct DenseTaps {
  const float* weights;
  size_t taps, rows;
};

// What is done with a complete sum: it is clamped to [low, high], in registers, then any other
// activation is applied while the row is in the first-level cache.
struct Epilogue {
  float low, high;
  Activation activation;
};

// Where an accumulator starts (at its row's bias; or, if `bias` is null, at the partial sum in
// `out`), and what is done with it if it is then complete.
struct Accumulation {
  const float* bias;         // one per row
  const Epilogue* epilogue;  // or null
};

template <class Index>
using SparseTile = void (*)(const TileInput& in, const SparseTaps<Index>& taps, float* out,
                            size_t stride, const Accumulation& accumulation);

template <class Index>
struct SparseTiles {
  // [R][C]; null where R * C exceeds tile_vectors
  SparseTile<Index> any[tile_vectors + 1][tile_vectors + 1];
  // [C], of one row, for an input with a tap_stride: multiplying by it is faster than a table
  SparseTile<Index> strided[tile_vectors + 1];

  SparseTile<Index> operator()(const TileInput& in, int rows, int vectors) const {
    return in.tap_stride && rows == 1 ? strided[vectors] : any[rows][vectors];
  }
};

struct TileKernels {
  int lanes;       // floats in a vector
  int dense_rows;  // output channels the dense kernel computes at a time
  // The indices of the ones in each of `rows` masks of `bytes` bytes (at most 32), low bit first,
  // one list after the other, then tap_slack zeros. Returns the number of ones.
  size_t (*expand)(const uint8_t* masks, size_t rows, size_t bytes, uint8_t* indices);
  SparseTiles<uint8_t> small;
  SparseTiles<uint16_t> large;
  // Copies `count` floats of each of `rows` rows: short ones, for which a call each is too much.
  void (*copy)(const float* from, ptrdiff_t from_stride, float* to, ptrdiff_t to_stride,
               size_t rows, size_t count);
  // The same, row i times factors[i].
  void (*scale)(const float* from, ptrdiff_t from_stride, const float* factors, float* to,
                ptrdiff_t to_stride, size_t rows, size_t count);
  // to = a + b, clamped to [low, high], for `count` floats of each of `rows` rows.
  void (*add)(const float* a, ptrdiff_t a_stride, const float* b, ptrdiff_t b_stride, float* to,
              ptrdiff_t to_stride, size_t rows, size_t count, float low, float high);
  void (*dense)(const TileInput& in, int rows, int vectors, const DenseTaps& taps, float* out,
                size_t stride, const Accumulation& accumulation);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(TileKernels, tile)
