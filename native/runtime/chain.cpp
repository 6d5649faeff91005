#include <algorithm>
#include <cstring>

#include "steps.h"

namespace skinny {

// The output positions as rows of floats, cut into tiles.
struct Chain::Grid {
  View in, out;  // of one sample
  const float* factors = nullptr;
  size_t rows, columns;  // of floats
  size_t lanes, row_vectors;
  size_t tiles_down, tiles_across;

  Grid(const Chain& chain, size_t n)
      : in(chain.in),
        out(chain.out),
        rows(chain.flat ? 1 : chain.height),
        columns(chain.flat ? (chain.height - 1) * chain.in.row_stride + chain.width
                           : chain.width * n),
        lanes(static_cast<size_t>(SKINNY_CHOOSE(tile).lanes)),
        row_vectors(divide_up(columns, lanes)),
        tiles_down(divide_up(rows, chain.tile_rows)),
        tiles_across(divide_up(row_vectors, chain.tile_columns)) {}
};

// A ring buffer of the last rows of a chain that is pooled, one per thread:
// [channel][row % rows][column].
struct Chain::Ring {
  float* data;
  size_t rows, floats;  // floats of a row

  float* row(size_t channel, size_t y) const { return data + (channel * rows + y % rows) * floats; }
};

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-loop-distribute-patterns")))  // or the loop becomes a memset
#endif
void zero_padding(const View& view, const ThreadContext& context, Range channels) {
  if (view.compact()) return;
  auto zero = [&](size_t from, size_t to) {
    float* at = context.at(from);
    size_t floats = (to - from) * context.n;
    if (floats > 64)
      std::memset(at, 0, floats * sizeof(float));
    else  // two or three floats between rows: a call to memset costs more
      for (size_t i = 0; i < floats; ++i) at[i] = 0;
  };
  for (size_t channel = channels.begin; channel < channels.end; ++channel) {
    size_t position = view.offset + channel * view.channel_stride;
    for (size_t row = 0; row < view.height; ++row) {
      zero(position, view.at(channel, row));
      position = view.at(channel, row) + view.width;
    }
    zero(position, view.offset + (channel + 1) * view.channel_stride);
  }
}

// Copies a tile of a range of channels from the scratch buffer to `out`, or to the ring.
void Chain::store_tile(const Grid& grid, const ThreadContext& context, const Ring* ring,
                       const float* from, Range channels, size_t row, size_t column, size_t rows,
                       size_t floats) const {
  size_t stride = tile_vectors * grid.lanes;
  size_t used = std::min(floats, grid.columns - column);
  if (!flat) {
    size_t to_stride = ring ? ring->rows * ring->floats : out.channel_stride * context.n;
    for (size_t r = 0; r < rows; ++r) {
      float* to = ring ? ring->row(channels.begin, row + r)
                       : context.at(grid.out.at(channels.begin, row + r));
      SKINNY_CHOOSE(tile).copy(from + channels.begin * stride + r * floats,
                               static_cast<ptrdiff_t>(stride), to + column,
                               static_cast<ptrdiff_t>(to_stride), channels.end - channels.begin,
                               used);
    }
    return;
  }
  for (size_t channel = channels.begin; channel < channels.end; ++channel) {
    const float* tile = from + channel * stride;
    for (size_t at = column; at < column + used;) {  // skip the padding between the rows
      size_t y = at / in.row_stride, x = at % in.row_stride;
      size_t stop = std::min(column + used, y * in.row_stride + out.width);
      if (x < out.width)
        std::memcpy(context.at(grid.out.at(channel, y, x)), tile + (at - column),
                    (stop - at) * sizeof(float));
      at = (y + 1) * in.row_stride;
    }
  }
}

// Copies a tile of all input channels to [channel][row][column].
void Chain::copy_tile(const Grid& grid, const float* from, float* to, size_t rows,
                      size_t floats) const {
  const ConvWeights& weights = *stages[0].weights;
  size_t channels = weights.taps() * weights.groups();
  auto stride = static_cast<ptrdiff_t>(tile_vectors * grid.lanes);
  auto channel_stride = static_cast<ptrdiff_t>(in.channel_stride);
  for (size_t row = 0; row < rows; ++row, from += in.row_stride, to += floats)
    if (grid.factors)
      SKINNY_CHOOSE(tile).scale(from, channel_stride, grid.factors, to, stride, channels, floats);
    else
      SKINNY_CHOOSE(tile).copy(from, channel_stride, to, stride, channels, floats);
}

// One tile, through all stages.
void Chain::run_tile(const Grid& grid, const ThreadContext& context, size_t row, size_t tile_across,
                     const Ring* ring) const {
  size_t lanes = grid.lanes, stride = tile_vectors * lanes;
  Range across = partition(grid.row_vectors, tile_across, grid.tiles_across);  // of like width
  size_t rows = std::min(tile_rows, grid.rows - row);
  size_t vectors = across.end - across.begin;
  size_t column = across.begin * lanes, floats = vectors * lanes;
  float* buffers[2] = {context.scratch, context.scratch + max_channels() * stride};
  const float* from = context.at(grid.in.offset + first + row * in.row_stride) + column;
  auto row_stride = static_cast<ptrdiff_t>(in.row_stride * context.n);
  if (copied_offsets) {
    float* copied = buffers[1] + max_channels() * stride;
    copy_tile(grid, from, copied, rows, floats);
    from = copied;
    row_stride = static_cast<ptrdiff_t>(floats);
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    const TapOffsets& offsets = s == 0 && copied_offsets ? *copied_offsets : stage.offsets;
    bool last = s + 1 == stages.size();
    // A tile of one row that ends inside the row is stored where it belongs at once, any other one
    // by way of the scratch buffer.
    bool direct = last && !flat && rows == 1 && column + floats <= grid.columns;
    float* to = buffers[s % 2];
    size_t to_stride = stride;
    if (direct) {
      to = (ring ? ring->row(0, row) : context.at(grid.out.at(0, row))) + column;
      to_stride = ring ? ring->rows * ring->floats : out.channel_stride * context.n;
    }
    for (size_t i = split_channels ? context.rank : 0; i < stage.weights->range_count();
         i += split_channels ? context.size : 1) {
      stage.weights->run(i, offsets, from, row_stride, static_cast<int>(rows),
                         static_cast<int>(vectors), to, to_stride, stage.bias.data(),
                         stage.epilogue);
      Range channels = stage.weights->channels(i);
      if (last && !direct)
        store_tile(grid, context, ring, to, channels, row, column, rows, floats);
    }
    from = to;
    row_stride = static_cast<ptrdiff_t>(floats);
  }
}

void Chain::run_pooled(const Grid& grid, const ThreadContext& context, Range range) const {
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  Ring ring{context.scratch + 2 * max_channels() * tile_vectors * grid.lanes, ring_rows(), floats};
  float* scratch = ring.data + out.channels * ring.rows * ring.floats;
  auto [begin, end] = range;
  // Not the first window's first row: of dilated windows that begin in the padding, a later one may
  // reach higher into the image.
  auto next = static_cast<size_t>(
      *std::min_element(pool->rows.begin.begin() + static_cast<ptrdiff_t>(begin),
                        pool->rows.begin.begin() + static_cast<ptrdiff_t>(end)));
  for (size_t y = begin; y < end; ++y) {
    for (; next < static_cast<size_t>(pool->rows.end[y]); ++next)
      for (size_t across = 0; across < grid.tiles_across; ++across)
        run_tile(grid, context, next, across, &ring);
    for (size_t channel = 0; channel < out.channels; ++channel)
      pool->run(y, [&](size_t i) { return ring.row(channel, i); }, width, context.n, scratch,
                context.at(grid.out.at(channel, y)));
  }
}

// Threads divide the tiles of all samples; of a chain that is pooled, the pooled rows: where the
// windows of two threads overlap, both compute the rows under them.
void Chain::run(const ThreadContext& context) const {
  Grid grid(*this, context.n);
  size_t tiles = grid.tiles_down * grid.tiles_across, each = pool ? out.height : tiles;
  auto [begin, end] = split_channels ? Range{0, samples.count * each}
                                     : context.partition(samples.count * each);
  for (size_t sample = 0; sample < samples.count; ++sample) {
    grid.in = in.shifted(sample * samples.in_stride);
    grid.out = out.shifted(sample * samples.out_stride);
    if (factors) grid.factors = context.at(factors->position + sample * factors->sample_stride);
    zero_padding(grid.out, context, context.partition(out.channels));
    size_t first_own = std::max(begin, sample * each), last_own = std::min(end, (sample + 1) * each);
    if (first_own >= last_own) continue;
    Range own{first_own - sample * each, last_own - sample * each};
    if (pool) {
      run_pooled(grid, context, own);
      continue;
    }
    for (size_t tile = own.begin; tile < own.end; ++tile)
      run_tile(grid, context, tile / grid.tiles_across * tile_rows, tile % grid.tiles_across,
               nullptr);
  }
}

double Chain::work() const {
  double weights = 0;
  for (const Stage& stage : stages) weights += static_cast<double>(stage.weights->values());
  return weights * static_cast<double>(samples.count * height * width) * ns_per_multiplication;
}

size_t Chain::max_channels() const {
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
  size_t size = 2 * max_channels() * tile_vectors * grid.lanes;
  if (copied_offsets)
    size += stages[0].weights->taps() * stages[0].weights->groups() * tile_vectors * grid.lanes;
  if (!pool) return size;
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  return size + out.channels * ring_rows() * floats + pool->scratch(width, n);
}

}  // namespace skinny
