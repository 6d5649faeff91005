#include "steps.h"

#include <algorithm>
#include <cstring>

#include "axis.h"
#include "strided.h"

namespace skinny {

void Linear::run(const ThreadContext& context) const {
  // Threads divide the vectors, or where these are few, the outputs of each.
  bool by_vectors = vectors >= 2 * context.size;
  auto [begin, end] = by_vectors ? context.partition(vectors) : Range{0, vectors};
  Range rows = by_vectors ? Range{0, weights->rows()} : context.partition(weights->rows());
  for (size_t i = begin; i < end; ++i) run_vector(context, i, rows);
}

void Linear::run_vector(const ThreadContext& context, size_t index, Range outputs) const {
  auto [begin, end] = outputs;
  const float* x = context.at(in + index * in_stride);
  float* y = context.at(out + index * out_stride);
  if (context.n == 1 && weights->readable_columns() != weights->cols()) {
    std::memcpy(context.scratch, x, weights->cols() * sizeof(float));
    std::memset(context.scratch + weights->cols(), 0,
                (weights->readable_columns() - weights->cols()) * sizeof(float));
    x = context.scratch;
  }
  weights->run(begin, end, x, context.n, bias.data(), y);
  if (activation.kind != ActivationKind::none)
    SKINNY_CHOOSE(pointwise).activate(activation, y + begin * context.n, y + begin * context.n,
                                      (end - begin) * context.n);
}

size_t Linear::scratch(size_t n) const { return n == 1 ? weights->readable_columns() : 0; }

double Linear::work() const {
  return static_cast<double>(vectors) * weights->work() * ns_per_float;
}

Pool::Pool(bool largest, Axis row_axis, Axis column_axis)
    : max(largest), rows(std::move(row_axis)), columns(std::move(column_axis)) {
  for (size_t y = 0; y < rows.begin.size(); ++y) {
    auto covered = static_cast<size_t>((rows.end[y] - rows.begin[y] - 1) / rows.dilation + 1);
    window_rows = std::max(window_rows, covered);
  }
  address_floats = window_rows * sizeof(float*) / sizeof(float);
  auto count = static_cast<int32_t>(columns.begin.size());
  const int32_t *begin = columns.begin.data(), *end = columns.end.data();
  windows = {begin, end, columns.scale.data(), columns.dilation, count, count, count, 0, 0, {}};
  if (count < 4 || columns.dilation != 1) return;
  int32_t length = end[1] - begin[1];  // the image's edge may cut the first window short
  int32_t stride = begin[2] - begin[1];
  if (length < 2 || length > Windows::longest || (stride != 1 && stride != 2)) return;
  windows.length = length;
  windows.stride = stride;
  bool whole = end[0] - begin[0] == length && begin[1] - begin[0] == stride;
  windows.regular = whole ? 0 : 1;
  int32_t i = windows.regular;
  for (int32_t previous = length; i < count; ++i) {
    int32_t entries = end[i] - begin[i];
    if (begin[i] - begin[1] != (i - 1) * int64_t{stride} || entries < 1 || entries > previous)
      break;
    previous = entries;
    for (int32_t k = 0; k < entries; ++k) windows.whole[k] = i + 1;
  }
  windows.irregular = i;
}

bool Pool::by_channel() const {
  return windows.by_two() && window_rows <= PoolKernels::most_rows;
}

Windows Pool::row_windows() const {
  Windows made{};
  made.begin = rows.begin.data();
  made.end = rows.end.data();
  made.scale = rows.scale.data();
  made.dilation = rows.dilation;
  made.count = static_cast<int32_t>(rows.begin.size());
  return made;
}

void Pooling::run(const ThreadContext& context) const {
  // Threads divide the pairs (channel, row): a network's last pooling may have few of either.
  size_t each = out.channels * out.height;
  auto [begin, end] = context.partition(samples.count * each);
  for (size_t sample = 0; sample < samples.count; ++sample) {
    View source = in.shifted(sample * samples.in_stride);
    View target = out.shifted(sample * samples.out_stride);
    zero_padding(target, context, context.partition(out.channels), {0, out.height});
    size_t line = std::max(begin, sample * each), last = std::min(end, (sample + 1) * each);
    size_t channel = line / out.height % out.channels, y = line % out.height;
    for (; line < last; ++line, ++y) {
      if (y == out.height) ++channel, y = 0;
      if (y == 0 && last - line >= out.height && context.n == 1 && pool->by_channel()) {
        pool->kernels.channel(pool->max, context.at(source.at(channel)), source.row_stride,
                              pool->row_windows(), pool->windows,
                              context.at(target.at(channel)), target.row_stride);
        y = out.height - 1;
        line += y;
        continue;
      }
      auto row = [&](size_t i) { return context.at(source.at(channel, i)); };
      pool->run(y, row, in.width, context.n, context.scratch, context.at(target.at(channel, y)));
    }
  }
}

size_t Pooling::scratch(size_t n) const { return pool->scratch(in.width, n); }

double Pooling::work() const {
  auto cover = [](const Pool::Axis& axis) {  // the inputs of all windows
    double covered = 0;
    for (size_t i = 0; i < axis.begin.size(); ++i)
      covered += static_cast<double>(axis.end[i] - axis.begin[i]) / axis.dilation;
    return covered;
  };
  return static_cast<double>(samples.count * in.channels) * cover(pool->rows) *
         cover(pool->columns) * ns_per_float;
}

std::vector<size_t> generate_code(const std::vector<std::shared_ptr<const Step>>& steps, size_t n,
                                  size_t most) {
  jit::CodeWriter writer;
  for (const auto& step : steps) {
    step->generate(n, most, writer);
    most -= std::min(most, step->code_bytes());
  }
  writer.finish();
  std::vector<size_t> bytes;
  for (const auto& step : steps) bytes.push_back(step->code_bytes());
  return bytes;
}

void SpaceToDepth::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(samples.count * out.channels);
  for (size_t i = begin; i < end; ++i)
    run_channel(context, i / out.channels, i % out.channels);
}

void SpaceToDepth::run_channel(const ThreadContext& context, size_t sample, size_t channel) const {
  size_t n = context.n, source = channel / row.size(), i = channel % row.size();
  View from_view = in.shifted(sample * samples.in_stride);
  View to_view = out.shifted(sample * samples.out_stride);
  zero_padding(to_view, context, {channel, channel + 1}, {0, out.height});
  // The entries of an axis of the output that have a source.
  auto inside = [](int64_t first, int64_t stride, size_t sources, size_t entries) {
    auto most = static_cast<int64_t>(entries);
    int64_t low = std::min(first < 0 ? (-first + stride - 1) / stride : 0, most);
    int64_t high = (static_cast<int64_t>(sources) - first + stride - 1) / stride;
    return Range{static_cast<size_t>(low), static_cast<size_t>(std::clamp(high, low, most))};
  };
  Range rows = inside(row[i], stride_y, in.height, out.height);
  Range columns = inside(column[i], stride_x, in.width, out.width);
  auto to = [&](size_t y) { return context.at(to_view.at(channel, y)); };
  auto zero = [&](Range which) {
    for (size_t y = which.begin; y < which.end; ++y)
      std::memset(to(y), 0, out.width * n * sizeof(float));
  };
  if (rows.begin == rows.end || columns.begin == columns.end) return zero({0, out.height});
  zero({0, rows.begin});
  zero({rows.end, out.height});
  auto from = [&](size_t y) {
    auto from_y = static_cast<size_t>(static_cast<int64_t>(y) * stride_y + row[i]);
    return context.read(in, from_view.at(source, from_y)) + column[i] * static_cast<int64_t>(n);
  };
  if (n == 1) {
    SKINNY_CHOOSE(strided).take({from(rows.begin), to(rows.begin),
                                 in.row_stride * static_cast<size_t>(stride_y), out.row_stride,
                                 rows.end - rows.begin, out.width, static_cast<size_t>(stride_x),
                                 columns.begin, columns.end});
    return;
  }
  size_t each = n * sizeof(float);
  for (size_t y = rows.begin; y < rows.end; ++y) {
    const float* own = from(y);
    float* target = to(y);
    std::memset(target, 0, columns.begin * each);
    std::memset(target + columns.end * n, 0, (out.width - columns.end) * each);
    if (stride_x == 1) {
      std::memcpy(target + columns.begin * n, own + columns.begin * n,
                  (columns.end - columns.begin) * each);
      continue;
    }
    for (size_t x = columns.begin; x < columns.end; ++x)
      std::memcpy(target + x * n, own + x * static_cast<size_t>(stride_x) * n, each);
  }
}

double SpaceToDepth::work() const {
  return static_cast<double>(samples.count * out.size()) * ns_per_float;
}

void Activate::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(in.size());
  SKINNY_CHOOSE(pointwise).activate(activation, context.at(in.offset + begin),
                                    context.at(out.offset + begin), (end - begin) * context.n);
}

// Threads divide the positions of every channel, as convolutions divide them: what a thread reads
// it mostly wrote itself, and another core's cache line takes long to come.
void Scale::run(const ThreadContext& context) const {
  const PointwiseKernels& kernels = SKINNY_CHOOSE(pointwise);
  auto [begin, end] = context.partition(in.height * in.width);
  size_t floats = (end - begin) * context.n;
  if (!floats) return;
  for (size_t c = 0; c < in.channels; ++c) {
    float* to = context.at(out.at(c) + begin);
    kernels.scale(context.at(in.at(c) + begin), to, floats, scale[c], shift[c]);
    if (activation.kind != ActivationKind::none) kernels.activate(activation, to, to, floats);
  }
}

void Normalise::run(const ThreadContext& context) const {
  size_t floats = in.height * in.width * context.n;
  // In chunks, so that the channels of a window stay in the first-level cache.
  constexpr size_t chunk = 64;
  size_t chunks = (floats + chunk - 1) / chunk;
  Range own = context.partition(samples.count * chunks);
  for (size_t sample = own.begin / chunks; sample * chunks < own.end; ++sample) {
    size_t before = sample * chunks;
    size_t begin = std::max(own.begin, before) - before, end = std::min(own.end - before, chunks);
    const float* from = context.at(in.offset + sample * samples.in_stride);
    float* to = context.at(out.offset + sample * samples.out_stride);
    SKINNY_CHOOSE(pointwise).lrn(from + begin * chunk, to + begin * chunk,
                                 std::min(floats, end * chunk) - begin * chunk, in.channels, floats,
                                 size, alpha, beta, k);
  }
}

double Normalise::work() const {
  return static_cast<double>(samples.count * in.size()) * (5 + size) * ns_per_float / 2;
}

void Add::run(const ThreadContext& context) const {
  size_t rows = shape[0] * shape[1] * shape[2], n = context.n;
  auto [begin, end] = context.partition(rows);
  const PointwiseKernels& kernels = SKINNY_CHOOSE(pointwise);
  bool plain = left_stride[3] == 1 && right_stride[3] == 1;
  for (size_t row = begin; row < end; ++row) {
    size_t k = row % shape[2], j = row / shape[2] % shape[1], i = row / shape[2] / shape[1];
    const float* x = context.at(left.offset + i * left_stride[0] + j * left_stride[1] +
                              k * left_stride[2]);
    const float* y = context.at(right.offset + i * right_stride[0] + j * right_stride[1] +
                              k * right_stride[2]);
    float* to = context.at(out.offset + row * shape[3]);
    if (plain) {
      kernels.add(x, y, to, shape[3] * n);
    } else {
      for (size_t l = 0; l < shape[3]; ++l)
        kernels.add(x + l * left_stride[3] * n, y + l * right_stride[3] * n, to + l * n, n);
    }
  }
}

void Concat::run(const ThreadContext& context) const {
  size_t total = out.size() / outer, done = 0;
  for (const View& input : in) {
    size_t each = input.size() / outer;
    auto [begin, end] = context.partition(input.size());  // of one image, outer is 1
    for (size_t i = begin / each; i * each < end; ++i) {
      size_t first = std::max(begin, i * each), last = std::min(end, (i + 1) * each);
      std::memcpy(context.at(out.offset + i * total + done + first - i * each),
                  context.at(input.offset + first), (last - first) * context.n * sizeof(float));
    }
    done += each;
  }
}

void Softmax::run(const ThreadContext& context) const {
  size_t columns = inner * context.n;
  auto [begin, end] = context.partition(outer);
  for (size_t i = begin; i < end; ++i) {
    const float* from = context.at(in.offset + i * axis * inner);
    float* to = context.at(out.offset + i * axis * inner);
    if (columns == 1)
      SKINNY_CHOOSE(axis).softmax_row(from, to, axis, log);
    else
      SKINNY_CHOOSE(axis).softmax_columns(from, columns, to, columns, axis, columns, log);
  }
}

}  // namespace skinny
