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
      : rows(chain.flat ? 1 : chain.out.height),
        columns(chain.flat ? (chain.out.height - 1) * chain.in.pitch + chain.out.width
                           : chain.out.width * n),
        lanes(static_cast<size_t>(SKINNY_CHOOSE(tile).lanes)),
        tiles_down((rows + chain.tile_rows - 1) / chain.tile_rows),
        tiles_across((columns + chain.tile_columns * lanes - 1) / (chain.tile_columns * lanes)) {}
};

void clear_margins(const View& view, const Place& place, size_t begin, size_t end) {
  if (view.compact()) return;
  auto zero = [&](size_t from, size_t to) {
    std::memset(place.at(from), 0, (to - from) * place.n * sizeof(float));
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

// Copies a tile of channels [begin, end) from the scratch buffer to `out`.
void Chain::leave(const Grid& grid, const Place& place, const float* from, size_t begin, size_t end,
                  size_t row, size_t column, size_t rows, size_t floats) const {
  size_t stride = tile_vectors * grid.lanes;
  size_t used = std::min(floats, grid.columns - column);
  for (size_t channel = begin; channel < end; ++channel) {
    const float* tile = from + channel * stride;
    if (!flat) {
      for (size_t r = 0; r < rows; ++r)
        std::memcpy(place.at(out.at(channel, row + r)) + column, tile + r * floats,
                    used * sizeof(float));
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

void Chain::run(const Place& place) const {
  Grid grid(*this, place.n);
  size_t lanes = grid.lanes, stride = tile_vectors * lanes;
  size_t tiles = grid.tiles_down * grid.tiles_across;
  size_t channels = out.channels;
  clear_margins(out, place, share(channels, place.rank, place.size),
                share(channels, place.rank + 1, place.size));

  size_t widest = 0;
  for (const Stage& stage : stages) widest = std::max(widest, stage.weights->outputs());
  float* buffers[2] = {place.scratch, place.scratch + widest * stride};

  size_t begin = share_channels ? 0 : share(tiles, place.rank, place.size);
  size_t end = share_channels ? tiles : share(tiles, place.rank + 1, place.size);
  for (size_t tile = begin; tile < end; ++tile) {
    size_t row = tile / grid.tiles_across * tile_rows;
    size_t column = tile % grid.tiles_across * tile_columns * lanes;
    size_t rows = std::min(tile_rows, grid.rows - row);
    size_t vectors = std::min(tile_columns, (grid.columns - column + lanes - 1) / lanes);
    size_t floats = vectors * lanes;
    const float* from = place.at(in.offset + first + row * in.pitch) + column;
    auto row_stride = static_cast<ptrdiff_t>(in.pitch * place.n);
    for (size_t s = 0; s < stages.size(); ++s) {
      const Stage& stage = stages[s];
      float* to = buffers[s % 2];
      size_t parts = stage.weights->parts();
      for (size_t p = share_channels ? place.rank : 0; p < parts;
           p += share_channels ? place.size : 1) {
        stage.weights->run(p, from, row_stride, static_cast<int>(rows), static_cast<int>(vectors),
                           to, stage.bias.data(), stage.low, stage.high);
        size_t first_channel = stage.weights->begin(p), last_channel = stage.weights->end(p);
        if (stage.activation != Activation::none)
          for (size_t c = first_channel; c < last_channel; ++c)
            SKINNY_CHOOSE(pointwise).activate(stage.activation, stage.a, stage.b, to + c * stride,
                                              to + c * stride, rows * floats);
        if (s + 1 == stages.size())
          leave(grid, place, to, first_channel, last_channel, row, column, rows, floats);
      }
      from = to;
      row_stride = static_cast<ptrdiff_t>(floats);
    }
  }
}

size_t Chain::scratch(size_t) const {
  size_t widest = 0;
  for (const Stage& stage : stages) widest = std::max(widest, stage.weights->outputs());
  return 2 * widest * tile_vectors * static_cast<size_t>(SKINNY_CHOOSE(tile).lanes);
}

size_t Chain::weight_bytes() const {
  size_t total = 0;
  for (const Stage& stage : stages) total += stage.weights->bytes();
  return total;
}

}  // namespace skinny
