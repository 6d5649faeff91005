// How the output of a chain is cut into tiles, and where its last rows are kept.
#pragma once

#include <algorithm>

#include "steps.h"

namespace skinny {

// The output positions as rows of floats, cut into tiles.
struct Chain::Grid {
  View in, out;  // of one sample
  const float* factors = nullptr;
  const jit::ChainCode* code = nullptr;  // as it was when the run began: it may appear meanwhile
  size_t rows, columns;  // of floats
  size_t lanes, row_vectors;
  size_t first_vector = 0;
  size_t tiles_down, tiles_across;
  size_t unit;  // vectors that a tile has a multiple of

  Grid(const Chain& chain, size_t n)
      : in(chain.in),
        out(chain.out),
        rows(chain.flat ? 1 : chain.height),
        columns(chain.flat ? (chain.height - 1) * chain.in.row_stride + chain.width
                           : chain.width * n),
        lanes(static_cast<size_t>(SKINNY_CHOOSE(tile).lanes)),
        row_vectors(divide_up(columns, lanes)),
        tiles_down(divide_up(rows, chain.tile_rows)),
        tiles_across(divide_up(row_vectors, chain.tile_columns)),
        unit(isa() == Isa::avx2 && chain.tile_columns % 2 == 0 ? 2 : 1) {}

  // The vectors of a tile. All are of like width, the wider ones first, so that neighbours have one;
  // with AVX2 of even width, but for the last: code for several channels computes two at a time.
  Range across(size_t tile) const {
    size_t units = divide_up(row_vectors, unit);
    auto begin = [&](size_t i) {
      return (units / tiles_across * i + std::min(i, units % tiles_across)) * unit;
    };
    return {begin(tile), std::min(begin(tile + 1), row_vectors)};
  }

  // The same for some vectors of a single row.
  Grid part(const Chain& chain, Range vectors) const {
    Grid own = *this;
    own.first_vector = vectors.begin;
    own.row_vectors = vectors.end - vectors.begin;
    own.tiles_across = divide_up(own.row_vectors, chain.tile_columns);
    return own;
  }
};

// A ring buffer of the last rows of a chain that is pooled, one per thread:
// [channel][row % rows][column]. Channels are an odd number of cache lines apart, as in a scratch
// buffer.
struct Chain::Ring {
  float* data;
  size_t rows, floats;  // floats of a row
  size_t stride;        // from one channel to the next, in floats

  Ring(float* at, size_t row_count, size_t row_floats)
      : data(at), rows(row_count), floats(row_floats), stride(channel_stride(rows * floats)) {}
  static size_t channel_stride(size_t used) { return (divide_up(used, 16) | 1) * 16; }
  float* row(size_t channel, size_t y) const { return data + channel * stride + y % rows * floats; }
};

}  // namespace skinny
