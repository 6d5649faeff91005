#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "chain_grid.h"

namespace skinny {

// Floats of a value, at least, that do not stay in a second-level cache: generated code prefetches them.
constexpr size_t cached_floats = size_t{1} << 18;

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-loop-distribute-patterns")))  // or the loop becomes a memset
#endif
void zero_padding(const View& view, const ThreadContext& context, Range channels, Range rows) {
  bool none = view.origin == 0 && view.row_stride == view.width;  // at most a gap between channels
  if (none || rows.begin == rows.end) return;
  auto zero = [&](size_t from, size_t to) {
    float* at = context.at(from);
    size_t floats = (to - from) * context.n;
    if (floats > 64)
      std::memset(at, 0, floats * sizeof(float));
    else  // two or three floats between rows: a call to memset costs more
      for (size_t i = 0; i < floats; ++i) at[i] = 0;
  };
  for (size_t channel = channels.begin; channel < channels.end; ++channel) {
    size_t position = rows.begin ? view.at(channel, rows.begin - 1) + view.width
                                 : view.offset + channel * view.channel_stride;
    for (size_t row = rows.begin; row < rows.end; ++row) {
      zero(position, view.at(channel, row));
      position = view.at(channel, row) + view.width;
    }
    if (rows.end == view.height) zero(position, view.offset + (channel + 1) * view.channel_stride);
  }
}

void zero_padding(const View& view, const ThreadContext& context, bool by_channels) {
  if (by_channels || view.height == 1)
    zero_padding(view, context, context.partition(view.channels), {0, view.height});
  else
    zero_padding(view, context, {0, view.channels}, context.partition(view.height));
}

// The parts of a tile that lie in one row of the output: segment(where it begins in the tile, the row,
// the column in floats, floats). Of a flat tile, what lies between the rows belongs to none.
template <class Segment>
void Chain::each_segment(const Grid& grid, size_t row, size_t column, size_t rows, size_t floats,
                         const Segment& segment) const {
  size_t used = std::min(floats, grid.columns - column);
  if (!flat) {
    for (size_t r = 0; r < rows; ++r) segment(r * floats, row + r, column, used);
    return;
  }
  for (size_t at = column; at < column + used;) {
    size_t y = at / in.row_stride, x = at % in.row_stride;
    size_t stop = std::min(column + used, y * in.row_stride + out.width);
    if (x < out.width) segment(at - column, y, x, stop - at);
    at = (y + 1) * in.row_stride;
  }
}

// Copies a tile of a range of channels from the scratch buffer to `out`, or to the ring.
void Chain::store_tile(const Grid& grid, const ThreadContext& context, const Ring* ring,
                       const float* from, Range channels, size_t row, size_t column, size_t rows,
                       size_t floats) const {
  size_t stride = scratch_stride(grid.lanes);
  size_t to_stride = ring ? ring->stride : out.channel_stride * context.n;
  from += channels.begin * stride;
  each_segment(grid, row, column, rows, floats, [&](size_t at, size_t y, size_t x, size_t count) {
    float* to =
        ring ? ring->row(channels.begin, y) : context.at(grid.out.at(channels.begin, y));
    SKINNY_CHOOSE(tile).copy(from + at, static_cast<ptrdiff_t>(stride), to + x,
                             static_cast<ptrdiff_t>(to_stride), channels.end - channels.begin,
                             count);
  });
}

// Adds the residual to a tile, and stores the sum where it belongs.
void Chain::add_residual(const Grid& grid, const ThreadContext& context, const float* from,
                         size_t stride, Range channels, size_t row, size_t column, size_t rows,
                         size_t floats) const {
  const View& view = residual->view;
  from += channels.begin * stride;
  each_segment(grid, row, column, rows, floats, [&](size_t at, size_t y, size_t x, size_t count) {
    SKINNY_CHOOSE(tile).add(context.at(view.at(channels.begin, y)) + x,
                            static_cast<ptrdiff_t>(view.channel_stride * context.n), from + at,
                            static_cast<ptrdiff_t>(stride),
                            context.at(grid.out.at(channels.begin, y)) + x,
                            static_cast<ptrdiff_t>(out.channel_stride * context.n),
                            channels.end - channels.begin, count, residual->low, residual->high);
  });
}

// Zeroes what a tile has between and after the rows of the image: `out` is the first channel's tile,
// which begins at `column` of the long row.
void Chain::zero_between_rows(float* out, size_t stride, Range channels, size_t column,
                              size_t floats) const {
  const ImageRows& rows = *image_rows;
  size_t end = column + floats;
  for (size_t row = column / rows.stride; row < rows.count; ++row) {
    size_t from = std::max(row * rows.stride + rows.width, column);
    size_t to = row + 1 == rows.count ? end : std::min((row + 1) * rows.stride, end);
    for (size_t c = channels.begin; from < to && c < channels.end; ++c)
      for (size_t i = from; i < to; ++i) out[c * stride + i - column] = 0;
  }
}

// Copies a tile of all input channels to [channel][row][column].
void Chain::copy_tile(const Grid& grid, const float* from, float* to, size_t rows,
                      size_t floats) const {
  const ConvWeights& weights = *stages[0].weights;
  size_t channels = weights.taps() * weights.groups();
  auto stride = static_cast<ptrdiff_t>(scratch_stride(grid.lanes));
  auto channel_stride = static_cast<ptrdiff_t>(in.channel_stride);
  for (size_t row = 0; row < rows; ++row, from += in.row_stride, to += floats)
    if (grid.factors)
      SKINNY_CHOOSE(tile).scale(from, channel_stride, grid.factors, to, stride, channels, floats);
    else
      SKINNY_CHOOSE(tile).copy(from, channel_stride, to, stride, channels, floats);
}

// Neighbouring tiles of as many rows: generated code that the processor has fetched is run for all of
// them, layer by layer. They have one width where they have several rows or the code asks for it.
struct Chain::Strip {
  static constexpr size_t most = 8;
  size_t rows = 0, count = 0;
  struct Tile {
    size_t row, column, vectors;
    bool direct;  // stored where it belongs at once, not by way of the scratch buffer
  } tiles[most];
};

// Whether all tiles are stored where they belong at once.
bool Chain::direct(const Grid& grid) const {
  return stages.size() == 1 && !flat && tile_rows == 1 && !pool && !copied_offsets &&
         grid.columns % grid.lanes == 0;
}

// Whether generated code may add the residual: where all tiles are stored at once, beside it.
bool Chain::joins_residual(const Grid& grid) const {
  if (!residual || flat || tile_rows > 1 || grid.columns % grid.lanes != 0) return false;
  const Epilogue& last = stages.back().epilogue;
  return residual->view.channel_stride == out.channel_stride && last.low == -HUGE_VALF &&
         last.high == HUGE_VALF && last.activation.kind == ActivationKind::none;
}

// Tiles at once: their scratch buffers, or what a block of a 1x1 convolution reads of them and about
// as much that it writes, fit a second-level cache, with the code of a layer's block.
size_t Chain::strip_tiles(const Grid& grid) const {
  if (direct(grid)) {
    bool pointwise = stages[0].offsets.tap_stride != 0;
    size_t taps = std::min(stages[0].weights->taps(), jit::joined_taps);
    return pointwise ? std::clamp(strip_floats / 2 / (taps * tile_columns * grid.lanes), size_t{1},
                                   Strip::most)
                     : Strip::most;
  }
  size_t channels = max_channels() / (split_channels ? stages[0].weights->range_count() : 1);
  size_t floats = scratch_buffers() * std::max<size_t>(1, channels) * scratch_stride(grid.lanes);
  return std::clamp(strip_floats / floats, size_t{1}, chain_strip_tiles);
}

// Tiles are numbered row by row.
void Chain::run_tiles(const Grid& grid, const ThreadContext& context, Range tiles,
                      const Ring* ring) const {
  size_t lanes = grid.lanes, most = strip_tiles(grid);
  bool one_width = tile_rows > 1 || (grid.code && grid.code->needs_shapes());
  Strip strip;
  for (size_t tile = tiles.begin; tile < tiles.end; ++tile) {
    size_t row = tile / grid.tiles_across * tile_rows;
    Range across = grid.across(tile % grid.tiles_across);
    size_t rows = std::min(tile_rows, grid.rows - row);
    size_t column = (grid.first_vector + across.begin) * lanes, vectors = across.end - across.begin;
    // A tile of one row that ends inside the row is stored where it belongs at once.
    bool direct = !flat && rows == 1 && column + vectors * lanes <= grid.columns;
    // Two rows of a strip must not have one place in the ring: of windows with gaps between them the
    // ring holds fewer rows than are computed.
    bool same_place = ring && strip.count && row >= strip.tiles[0].row + ring->rows;
    bool other_shape = rows != strip.rows || (one_width && vectors != strip.tiles[0].vectors);
    if (strip.count && (strip.count == most || other_shape || same_place)) {
      run_strip(grid, context, strip, ring);
      strip.count = 0;
    }
    strip.rows = rows;
    strip.tiles[strip.count++] = {row, column, vectors, direct};
  }
  if (strip.count) run_strip(grid, context, strip, ring);
}

// The tiles of a strip, through all stages.
void Chain::run_strip(const Grid& grid, const ThreadContext& context, const Strip& strip,
                      const Ring* ring) const {
  size_t stride = scratch_stride(grid.lanes);
  size_t each = max_channels() * stride, most = strip_tiles(grid);
  jit::TileRun runs[Strip::most];
  auto row_stride = static_cast<ptrdiff_t>(in.row_stride * context.n);
  for (size_t t = 0; t < strip.count; ++t) {
    const Strip::Tile& tile = strip.tiles[t];
    runs[t].vectors = tile.vectors;
    runs[t].in = context.at(grid.in.offset + first + tile.row * in.row_stride) + tile.column;
    if (copied_offsets) {
      const ConvWeights& weights = *stages[0].weights;
      float* copied = context.scratch + scratch_buffers() * most * each +
                      t * weights.taps() * weights.groups() * stride;
      copy_tile(grid, runs[t].in, copied, strip.rows, tile.vectors * grid.lanes);
      runs[t].in = copied;
    }
  }
  // In the scratch buffer; of tiles of one row it does not matter.
  auto own_row_stride = static_cast<ptrdiff_t>(strip.tiles[0].vectors * grid.lanes);
  if (copied_offsets) row_stride = own_row_stride;
  for (size_t s = 0; s < stages.size(); ++s) {
    bool last = s + 1 == stages.size();
    for (size_t t = 0; t < strip.count; ++t) {
      const Strip::Tile& tile = strip.tiles[t];
      runs[t].out = context.scratch + (s % 2 * most + t) * each;
      runs[t].stride = stride;
      if (!last || !tile.direct) continue;
      runs[t].out =
          (ring ? ring->row(0, tile.row) : context.at(grid.out.at(0, tile.row))) + tile.column;
      runs[t].stride = ring ? ring->stride : out.channel_stride * context.n;
      if (residual) runs[t].residual = context.at(residual->view.at(0, tile.row)) + tile.column;
    }
    run_stage(grid, context, strip, ring, s, runs, row_stride);
    for (size_t t = 0; t < strip.count; ++t) runs[t].in = runs[t].out;
    row_stride = own_row_stride;
  }
}

// One stage of a strip, range by range of its channels.
void Chain::run_stage(const Grid& grid, const ThreadContext& context, const Strip& strip,
                      const Ring* ring, size_t s, const jit::TileRun* runs,
                      ptrdiff_t row_stride) const {
  const Stage& stage = stages[s];
  const TapOffsets& offsets = s == 0 && copied_offsets ? *copied_offsets : stage.offsets;
  const jit::TileCode* code =
      grid.code ? grid.code->find(s, strip.rows, strip.tiles[0].vectors) : nullptr;
  const Activation& other = stage.epilogue.activation;
  bool last = s + 1 == stages.size();
  size_t ranges = code ? code->range_count() : stage.weights->range_count();
  size_t rank = split_channels ? context.rank : 0, size = split_channels ? context.size : 1;
  for (size_t i = rank; i < ranges; i += size) {
    Range channels = code ? code->channels(i) : stage.weights->channels(i);
    if (code) code->run(i, offsets, runs, strip.count, strip.rows, row_stride);
    for (size_t t = 0; t < strip.count; ++t) {
      const jit::TileRun& run = runs[t];
      const Strip::Tile& tile = strip.tiles[t];
      size_t floats = tile.vectors * grid.lanes;
      if (!code)
        stage.weights->run(i, offsets, run.in, row_stride, static_cast<int>(strip.rows),
                           static_cast<int>(tile.vectors), run.out, run.stride, stage.bias.data(),
                           stage.epilogue);
      else if (other.kind != ActivationKind::none)
        for (size_t c = channels.begin; c < channels.end; ++c)
          SKINNY_CHOOSE(pointwise).activate(other, run.out + c * run.stride,
                                            run.out + c * run.stride, strip.rows * floats);
      if (last && residual && !(code && code->adds_residual()))
        add_residual(grid, context, run.out, run.stride, channels, tile.row, tile.column, strip.rows,
                     floats);
      else if (last && image_rows)
        zero_between_rows(run.out, run.stride, channels, tile.column, floats);
      else if (last && !tile.direct)
        store_tile(grid, context, ring, run.out, channels, tile.row, tile.column, strip.rows, floats);
    }
  }
}

void Chain::run_pooled(const Grid& grid, const ThreadContext& context, Range range) const {
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  size_t tiles =
      scratch_buffers() * strip_tiles(grid) * max_channels() * scratch_stride(grid.lanes);
  Ring ring(context.scratch + tiles, ring_rows(), floats);
  float* scratch = ring.data + out.channels * ring.stride;
  auto [begin, end] = range;
  // Not the first window's first row: of dilated windows that begin in the padding, a later one may
  // reach higher into the image.
  auto next = static_cast<size_t>(
      *std::min_element(pool->rows.begin.begin() + static_cast<ptrdiff_t>(begin),
                        pool->rows.begin.begin() + static_cast<ptrdiff_t>(end)));
  for (size_t y = begin; y < end; ++y) {
    auto stop = std::max(next, static_cast<size_t>(pool->rows.end[y]));
    run_tiles(grid, context, {next * grid.tiles_across, stop * grid.tiles_across}, &ring);
    next = stop;
    for (size_t channel = 0; channel < out.channels; ++channel)
      pool->run(y, [&](size_t i) { return ring.row(channel, i); }, width, context.n, scratch,
                context.at(grid.out.at(channel, y)));
  }
}

// Threads divide the tiles of all samples; of a single row its vectors, where code serves any number
// of them; of a chain that is pooled, the pooled rows: where the windows of two threads overlap, both
// compute the rows under them. Whether there is code yet must not matter to how they divide: one
// thread may see it and another not.
void Chain::run(const ThreadContext& context) const {
  Grid grid(*this, context.n);
  grid.code = code_->get();
  if (grid.rows == 1 && samples.count == 1 && !pool && !split_channels && !factors &&
      isa() != Isa::avx2) {
    zero_padding(grid.out, context);
    Grid own = grid.part(*this, context.partition(grid.row_vectors));
    run_tiles(own, context, {0, own.tiles_across}, nullptr);
    return;
  }
  size_t tiles = grid.tiles_down * grid.tiles_across, each = pool ? out.height : tiles;
  auto [begin, end] = split_channels ? Range{0, samples.count * each}
                                     : context.partition(samples.count * each);
  for (size_t sample = 0; sample < samples.count; ++sample) {
    grid.in = in.shifted(sample * samples.in_stride);
    grid.out = out.shifted(sample * samples.out_stride);
    if (factors) grid.factors = context.at(factors->position + sample * factors->sample_stride);
    zero_padding(grid.out, context, split_channels);
    size_t first_own = std::max(begin, sample * each), last_own = std::min(end, (sample + 1) * each);
    if (first_own >= last_own) continue;
    Range own{first_own - sample * each, last_own - sample * each};
    if (pool)
      run_pooled(grid, context, own);
    else
      run_tiles(grid, context, own, nullptr);
  }
}

void Chain::generate(size_t n, size_t most, jit::CodeWriter& writer) const {
  if (!code_->begin()) return;
  Grid grid(*this, n);
  std::array<size_t, tile_vectors + 1> across{};  // tiles of a row, by their vectors
  for (size_t i = 0; i < grid.tiles_across; ++i) {
    Range vectors = grid.across(i);
    ++across[vectors.end - vectors.begin];
  }
  std::vector<jit::TileShape> shapes;
  for (auto [rows, down] : {std::pair{tile_rows, grid.rows / tile_rows},
                            std::pair{grid.rows % tile_rows, size_t{1}}})
    for (size_t vectors = 1; vectors <= tile_vectors; ++vectors)
      if (rows && down && across[vectors])
        shapes.push_back({rows, vectors, down * across[vectors] * samples.count});
  size_t tiles = std::min(strip_tiles(grid), grid.tiles_down * grid.tiles_across);
  std::optional<jit::ChainCode::Bounds> bounds;
  if (joins_residual(grid)) bounds = {residual->low, residual->high};
  jit::Ahead ahead;
  size_t vectors = tiles * tile_rows * tile_columns;
  bool large_in = in.size() * n > cached_floats, large_out = out.size() * n > cached_floats;
  if (large_in && stages[0].offsets.tap_stride && direct(grid))  // the next strip's
    ahead.in = static_cast<int32_t>(vectors * grid.lanes * sizeof(float));
  ahead.out = large_out && !flat && tile_rows == 1 && !pool;
  code_->set(std::make_unique<const jit::ChainCode>(
      stages, copied_offsets ? *copied_offsets : stages[0].offsets,
      static_cast<ptrdiff_t>(copied_offsets ? 0 : in.row_stride * n),
      shapes, most, bounds, !split_channels, vectors, ahead, writer));
}

size_t Chain::code_bytes() const {
  const jit::ChainCode* code = code_->get();
  return code ? code->bytes() : 0;
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
  if (direct(grid)) return 0;
  size_t each = strip_tiles(grid) * scratch_stride(grid.lanes);
  size_t size = scratch_buffers() * max_channels() * each;
  if (copied_offsets) size += stages[0].weights->taps() * stages[0].weights->groups() * each;
  if (!pool) return size;
  size_t floats = grid.tiles_across * tile_columns * grid.lanes;
  return size + out.channels * Ring::channel_stride(ring_rows() * floats) + pool->scratch(width, n);
}

}  // namespace skinny
