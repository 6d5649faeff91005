#include <algorithm>
#include <cstring>

#include "steps.h"

namespace skinny {

// The output positions as rows of floats, cut into tiles.
struct Chain::Grid {
  size_t rows, columns;  // of floats
  size_t lanes;
  size_t tiles_down, tiles_across;

  Grid(const Chain& chain, size_t n)
      : rows(chain.flat ? 1 : chain.height),
        columns(chain.flat ? (chain.height - 1) * chain.in.pitch + chain.width : chain.width * n),
        lanes(static_cast<size_t>(SKINNY_CHOOSE(tile).lanes)),
        tiles_down((rows + chain.tile_rows - 1) / chain.tile_rows),
        tiles_across((columns + chain.tile_columns * lanes - 1) / (chain.tile_columns * lanes)) {}
};

// The last rows of a chain that is pooled, a member's own: [channel][row % rows][column].
struct Chain::Ring {
  float* data;
  size_t rows, floats;  // floats of a row

  float* row(size_t channel, size_t y) const { return data + (channel * rows + y % rows) * floats; }
};

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-loop-distribute-patterns")))  // or the loop is a call again
#endif
void clear_margins(const View& view, const Place& place, size_t begin, size_t end) {
  if (view.compact()) return;
  auto zero = [&](size_t from, size_t to) {
    float* at = place.at(from);
    size_t floats = (to - from) * place.n;
    if (floats > 64)
      std::memset(at, 0, floats * sizeof(float));
    else  // the two or three floats between rows: a call costs more
      for (size_t i = 0; i < floats; ++i) at[i] = 0;
  };
  for (size_t channel = begin; channel < end; ++channel) {
    size_t position = view.offset + channel * view.plane;
    for (size_t row = 0; row < view.height; ++row) {
      zero(position, view.at(channel, row));
      position = view.at(channel, row) + view.width;
    }
    zero(position, view.offset + (channel + 1) * view.plane);
  }
}

// Copies a tile of channels [begin, end) from the scratch buffer to `out`, or to the ring.
void Chain::leave(const Grid& grid, const Place& place, const Ring* ring, const float* from,
                  size_t begin, size_t end, size_t row, size_t column, size_t rows,
                  size_t floats) const {
  size_t stride = tile_vectors * grid.lanes;
  size_t used = std::min(floats, grid.columns - column);
  for (size_t channel = begin; channel < end; ++channel) {
    const float* tile = from + channel * stride;
    if (!flat) {
      for (size_t r = 0; r < rows; ++r) {
        float* to = ring ? ring->row(channel, row + r) : place.at(out.at(channel, row + r));
        std::memcpy(to + column, tile + r * floats, used * sizeof(float));
      }
      continue;
    }
    for (size_t at = column; at < column + used;) {  // skip the margins between the rows
      size_t y = at / in.pitch, x = at % in.pitch;
      size_t stop = std::min(column + used, y * in.pitch + out.width);
      if (x < out.width)
        std::memcpy(place.at(out.at(channel, y, x)), tile + (at - column),
                    (stop - at) * sizeof(float));
      at = (y + 1) * in.pitch;
    }
  }
}

// One tile, through all stages.
void Chain::run_tile(const Grid& grid, const Place& place, size_t row, size_t tile_across,
                     const Ring* ring) const {
  size_t lanes = grid.lanes, stride = tile_vectors * lanes;
  size_t column = tile_across * tile_columns * lanes;
  size_t rows = std::min(tile_rows, grid.rows - row);
  size_t vectors = std::min(tile_columns, (grid.columns - column + lanes - 1) / lanes);
  size_t floats = vectors * lanes;
  float* buffers[2] = {place.scratch, place.scratch + widest() * stride};
  const float* from = place.at(in.offset + first + row * in.pitch) + column;
  auto row_stride = static_cast<ptrdiff_t>(in.pitch * place.n);
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    bool last = s + 1 == stages.size();
    // A whole piece of one row is written where it belongs, anything else through the scratch.
    bool direct = last && !flat && rows == 1 && column + floats <= grid.columns;
    float* to = buffers[s % 2];
    size_t step = stride;
    if (direct) {
      to = (ring ? ring->row(0, row) : place.at(out.at(0, row))) + column;
      step = ring ? ring->rows * ring->floats : out.plane * place.n;
    }
    for (size_t p = share_channels ? place.rank : 0; p < stage.weights->parts();
         p += share_channels ? place.size : 1) {
      stage.weights->run(p, from, row_stride, static_cast<int>(rows), static_cast<int>(vectors), to,
                         step, stage.bias.data(), stage.low, stage.high);
      size_t begin = stage.weights->begin(p), end = stage.weights->end(p);
      if (stage.activation != Activation::none)
        for (size_t c = begin; c < end; ++c)
          SKINNY_CHOOSE(pointwise).activate(stage.activation, stage.a, stage.b, to + c * step,
                                            to + c * step, rows * floats);
      if (last && !direct) leave(grid, place, ring, to, begin, end, row, column, rows, floats);
    }
    from = to;
    row_stride = static_cast<ptrdiff_t>(floats);
  }
}

// Members share the pooled rows; where two meet, both compute the rows they need.
void Chain::run_pooled(const Grid& grid, const Place& place) const {
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  Ring ring{place.scratch + 2 * widest() * tile_vectors * grid.lanes, ring_rows(), floats};
  float* column = ring.data + out.channels * ring.rows * ring.floats;
  size_t begin = share(out.height, place.rank, place.size);
  size_t end = share(out.height, place.rank + 1, place.size);
  size_t next = begin < end ? static_cast<size_t>(pool->rows.begin[begin]) : 0;
  for (size_t y = begin; y < end; ++y) {
    for (; next < static_cast<size_t>(pool->rows.end[y]); ++next)
      for (size_t across = 0; across < grid.tiles_across; ++across)
        run_tile(grid, place, next, across, &ring);
    for (size_t channel = 0; channel < out.channels; ++channel)
      pool->run(y, [&](size_t i) { return ring.row(channel, i); }, width, place.n, column,
                place.at(out.at(channel, y)));
  }
}

void Chain::run(const Place& place) const {
  Grid grid(*this, place.n);
  clear_margins(out, place, share(out.channels, place.rank, place.size),
                share(out.channels, place.rank + 1, place.size));
  if (pool) return run_pooled(grid, place);
  size_t tiles = grid.tiles_down * grid.tiles_across;
  size_t begin = share_channels ? 0 : share(tiles, place.rank, place.size);
  size_t end = share_channels ? tiles : share(tiles, place.rank + 1, place.size);
  for (size_t tile = begin; tile < end; ++tile)
    run_tile(grid, place, tile / grid.tiles_across * tile_rows, tile % grid.tiles_across, nullptr);
}

size_t Chain::widest() const {
  size_t most = 0;
  for (const Stage& stage : stages) most = std::max(most, stage.weights->outputs());
  return most;
}

size_t Chain::ring_rows() const {
  size_t most = 0;
  for (size_t y = 0; y < pool->rows.begin.size(); ++y)
    most = std::max(most, static_cast<size_t>(pool->rows.end[y] - pool->rows.begin[y]));
  return most;
}

size_t Chain::scratch(size_t n) const {
  Grid grid(*this, n);
  size_t size = 2 * widest() * tile_vectors * grid.lanes;
  if (!pool) return size;
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  return size + out.channels * ring_rows() * floats + width * n;
}

}  // namespace skinny
