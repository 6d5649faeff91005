// No field of a View exceeds max_offset (2^31 - 1): products of two of them do not overflow.
#include "image_steps.h"

#include <algorithm>
#include <optional>

#include "require.h"

namespace skinny {
namespace {

constexpr size_t max_ring = size_t{1} << 40;  // floats: far from overflow, and from any memory

void check(const View& v) {
  for (size_t field : {v.offset, v.channels, v.height, v.width, v.channel_stride, v.row_stride,
                       v.origin})
    require(field <= max_offset, "a view is too large to address");
  require(v.channels && v.height && v.width, "a view must not be empty");
  require(v.row_stride >= v.width &&
              v.origin + (v.height - 1) * v.row_stride + v.width <= v.channel_stride,
          "a view's rows must lie in its channels, without overlapping");
}

template <class S>
S image_step(const ImageArena& arena, const View& source, const View& target) {
  check_samples(arena, source, target);
  S step;
  step.in = source;
  step.out = target;
  step.samples = arena.samples;
  return step;
}

void check_axis(const Pool::Axis& axis, size_t inputs, size_t outputs) {
  require(axis.begin.size() == outputs, "a pooling window for each output is needed");
  for (int32_t end : axis.end)
    require(static_cast<size_t>(end) <= inputs, "a pooling window must lie in its input");
}

// Whether all input channels are the taps of a 1x1 convolution, in order.
bool is_pointwise(const Chain& chain) {
  const TapOffsets& given = chain.stages[0].offsets;
  const ConvWeights& weights = *chain.stages[0].weights;
  size_t taps = weights.taps(), groups = weights.groups();
  auto expected = [&](size_t channel) {
    return static_cast<ptrdiff_t>(channel * chain.in.channel_stride);
  };
  if (taps * groups != chain.in.channels) return false;
  if (groups > 1 && given.group_stride != expected(taps)) return false;
  for (size_t tap = 0; tap < taps; ++tap) {
    size_t block = tap / weights.block_taps(), within = tap % weights.block_taps();
    if (given.blocks[block] + given.table[within] != expected(tap)) return false;
  }
  return true;
}

// Whether copies of its tiles are worth it: its input's channels do not begin at vectors, and each
// is multiplied often enough.
bool is_worth_copying(const Chain& chain, size_t lanes) {
  constexpr size_t worth = 16;
  const ConvWeights& weights = *chain.stages[0].weights;
  return !weights.dense() && chain.tile_rows == 1 && chain.in.channel_stride % lanes != 0 &&
         weights.values() >= worth * weights.taps() * weights.groups();
}

// Where the taps of a 1x1 convolution lie in the copies of its tiles, if it makes any.
std::optional<TapOffsets> copied_offsets(const Chain& chain, size_t lanes) {
  const ConvWeights& weights = *chain.stages[0].weights;
  size_t taps = weights.taps(), groups = weights.groups(), stride = scratch_stride(lanes);
  if (chain.pool || product(taps * groups, stride) > max_offset || !is_pointwise(chain) ||
      !(chain.factors || is_worth_copying(chain, lanes)))
    return std::nullopt;
  std::vector<int32_t> offsets(taps);
  for (size_t tap = 0; tap < taps; ++tap) offsets[tap] = static_cast<int32_t>(tap * stride);
  return TapOffsets(offsets.data(), taps, weights.block_taps(), groups,
                    static_cast<int64_t>(taps * stride));
}

}  // namespace

void check_kernel(const KernelShape& shape) {
  for (const auto& sides : {shape.kernel, shape.stride, shape.dilation})
    for (size_t side : sides)
      require(side && side <= max_offset, "a kernel, a stride and a dilation are 1 at least");
  for (size_t side : shape.padding) require(side <= max_offset, "a padding is too large");
}

const View& inside(size_t positions, const View& view) {
  check(view);
  require(view.end() <= positions, "a view must lie in the arena");
  return view;
}

void apart(const View& source, const View& target) {
  require(source.end() <= target.offset || target.end() <= source.offset,
          "a step must not write what it reads");
}

void check_in_place(const ImageArena& arena, const View& view) {
  const Samples& samples = arena.samples;
  require(samples.count && samples.count <= max_offset && samples.in_stride <= max_offset &&
              samples.in_stride == samples.out_stride,
          "the samples must lie in the arena");
  size_t others = samples.count - 1;
  inside(arena.positions, view);
  require(view.end() + others * samples.in_stride <= arena.positions,
          "the samples must lie in the arena");
  require(!others || view.end() - view.offset <= samples.in_stride, "the samples must not overlap");
}

void check_samples(const ImageArena& arena, const View& source, const View& target) {
  const Samples& samples = arena.samples;
  require(samples.count && samples.count <= max_offset && samples.in_stride <= max_offset &&
              samples.out_stride <= max_offset,
          "the samples must lie in the arena");
  size_t others = samples.count - 1;
  inside(arena.positions, source);
  inside(arena.positions, target);
  if (others == 0) return apart(source, target);
  size_t source_end = source.end() + others * samples.in_stride;
  size_t target_end = target.end() + others * samples.out_stride;
  require(source_end <= arena.positions && target_end <= arena.positions,
          "the samples must lie in the arena");
  require(target.end() - target.offset <= samples.out_stride, "the samples must not overlap");
  if (source_end <= target.offset || target_end <= source.offset) return;
  // Else both lie in ranges of their own of every sample of one value, like some of its channels.
  apart(source, target);
  size_t begin = std::min(source.offset, target.offset), end = std::max(source.end(), target.end());
  require(samples.in_stride == samples.out_stride && end - begin <= samples.in_stride,
          "a step must not write what it reads");
}

Chain make_chain(const ImageArena& arena, const View& source, const View& target, size_t height,
                 size_t width, size_t first, bool flat, size_t tile_rows, size_t tile_columns,
                 bool split_channels, const std::vector<Stage>& stages,
                 const std::shared_ptr<Pool>& pool, std::optional<Chain::Factors> factors,
                 const std::optional<Chain::Residual>& residual,
                 const std::optional<Chain::ImageRows>& image_rows) {
  auto lanes = static_cast<size_t>(SKINNY_CHOOSE(tile).lanes);
  size_t n = arena.n;
  Chain step = image_step<Chain>(arena, source, target);
  require(height && width && height <= max_offset && width <= max_offset && first <= max_offset,
          "a chain's sizes must lie in the arena");
  require(tile_rows && tile_rows <= tile_vectors && tile_columns && tile_columns <= tile_vectors &&
              tile_rows * tile_columns <= tile_vectors,
          "a tile must fit the registers");
  require(!flat || (n == 1 && width <= source.row_stride), "only one image may be laid out flat");
  require(!stages.empty() && !(split_channels && stages.size() > 1),
          "a chain that splits channels has one stage");
  // Tiles read whole vectors: past the last position by less than one, which is the arena's slack.
  size_t begin = source.offset + (arena.samples.count - 1) * arena.samples.in_stride + first;
  size_t extent = (height - 1) * source.row_stride + width;
  require(begin + extent <= arena.positions, "a chain must read from the arena");
  require(stages[0].offsets.max <= static_cast<int64_t>((arena.positions - begin - extent) * n),
          "a tap must lie in the arena");
  for (size_t i = 1; i < stages.size(); ++i)
    require(stages[i].offsets.max <
                static_cast<int64_t>(product(stages[i - 1].weights->outputs(),
                                             scratch_stride(lanes))) -
                    static_cast<int64_t>(scratch_stride(lanes)) + 1,
            "a tap must lie in the scratch buffer");
  require(stages.back().weights->outputs() == target.channels,
          "a chain's last stage must make its output's channels");
  if (pool) {
    require(!flat && !split_channels && tile_rows == 1, "a pooled chain is computed row by row");
    check_axis(pool->rows, height, target.height);
    check_axis(pool->columns, width, target.width);
    require(product(product(target.channels, height), width * n) <= max_ring,
            "the rows of a pooled chain need too much memory");
  } else {
    require(height == target.height && width == target.width, "a chain must fill its output");
  }
  step.height = height;
  step.width = width;
  step.pool = pool;
  step.first = first;
  step.flat = flat;
  step.tile_rows = tile_rows;
  step.tile_columns = tile_columns;
  step.split_channels = split_channels;
  step.stages = stages;
  step.factors = factors;
  if (residual) {
    const View& view = inside(arena.positions, residual->view);
    apart(view, target);
    require(!pool && arena.samples.count == 1, "a residual is added to one sample, before pooling");
    require(view.channels == target.channels && view.height == height && view.width == width,
            "a residual has the shape of what it is added to");
    step.residual = residual;
  }
  if (image_rows) {
    const auto& [count, row_width, stride] = *image_rows;
    require(n == 1 && !flat && !pool && !residual && height == 1 && width % lanes == 0,
            "only one image is computed as one long row of whole vectors");
    require(count && row_width && row_width <= stride && stride <= max_offset &&
                count <= max_offset && (count - 1) * stride + row_width <= width &&
                width - ((count - 1) * stride + row_width) < lanes,
            "the rows of an image must lie in the long one, and fill it");
    step.image_rows = image_rows;
  }
  if (n == 1) step.copied_offsets = copied_offsets(step, lanes);
  require(!factors || step.copied_offsets, "only a 1x1 convolution of one image takes factors");
  return step;
}

Pooling make_pooling(const ImageArena& arena, const View& source, const View& target,
                     const std::shared_ptr<Pool>& pool) {
  Pooling step = image_step<Pooling>(arena, source, target);
  require(source.channels == target.channels, "pooling keeps the channels");
  check_axis(pool->rows, source.height, target.height);
  check_axis(pool->columns, source.width, target.width);
  step.pool = pool;
  return step;
}

SpaceToDepth make_space_to_depth(const ImageArena& arena, const View& source, const View& target,
                                 const std::array<int64_t, 2>& stride,
                                 const std::vector<int64_t>& rows,
                                 const std::vector<int64_t>& columns) {
  SpaceToDepth step = image_step<SpaceToDepth>(arena, source, target);
  constexpr auto limit = static_cast<int64_t>(max_offset);
  auto far = [](int64_t at) { return at < -limit || at > limit; };
  for (int64_t side : stride) require(side > 0 && !far(side), "a stride must be positive");
  require(!rows.empty() && rows.size() == columns.size() &&
              target.channels == product(source.channels, rows.size()),
          "space-to-depth needs a row and a column for each channel it makes of one");
  require(std::none_of(rows.begin(), rows.end(), far) &&
              std::none_of(columns.begin(), columns.end(), far),
          "a row or a column lies too far away");
  step.stride_y = stride[0];
  step.stride_x = stride[1];
  step.row = rows;
  step.column = columns;
  return step;
}

}  // namespace skinny
