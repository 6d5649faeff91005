#include <algorithm>
#include <cstring>

#include "cell_fill.h"
#include "int8_steps.h"

namespace skinny {

// ---- floats to cells and back

Quantize::Quantize(const Tensor& source, const CellImage& target, Quantization to)
    : source_(source), target_(target), to_(to) {}

void Quantize::run(const ThreadContext& context) const {
  constexpr size_t at_once = 64;
  const View& v = target_.view;
  const auto& s = source_.strides;
  size_t channels = source_.shape[1];
  bool row = v.height == 1 || (s[2] == v.width * s[3] && v.row_stride == v.width);
  size_t rows = row ? 1 : v.height, length = row ? v.height * v.width : v.width;
  auto [begin, end] = context.partition(source_.shape[0] * v.channels * rows);
  float gathered[4][at_once];
  const auto quantize = int8_kernels().quantize;
  const float inverse = to_.inverse();
  size_t y = begin % rows, quad = begin / rows % v.channels, sample = begin / rows / v.channels;
  auto next = [&] {
    if (++y < rows) return;
    y = 0;
    if (++quad < v.channels) return;
    quad = 0;
    ++sample;
  };
  for (size_t i = begin; i < end; ++i, next()) {
    float* channel = context.arena + v.offset + sample * target_.sample_stride +
                     quad * v.channel_stride;
    if (y == 0) fill_around(channel, v, to_.zero);
    const float* from = source_.from(context) + sample * s[0] + 4 * quad * s[1] + y * s[2];
    size_t count = std::min<size_t>(4, channels - 4 * quad);
    float* to = channel + v.origin + y * v.row_stride;
    const float* rows_of[4] = {};
    if (s[3] == 1 || length == 1) {
      for (size_t c = 0; c < count; ++c) rows_of[c] = from + c * s[1];
      quantize(rows_of, length, inverse, to_.zero, to);
      continue;
    }
    for (size_t x = 0; x < length; x += at_once) {
      size_t some = std::min(at_once, length - x);
      for (size_t j = 0; j < some; ++j)
        for (size_t c = 0; c < count; ++c) gathered[c][j] = from[c * s[1] + (x + j) * s[3]];
      for (size_t c = 0; c < count; ++c) rows_of[c] = gathered[c];
      quantize(rows_of, some, inverse, to_.zero, to + x);
    }
  }
}

double Quantize::work() const { return static_cast<double>(source_.size()) * ns_per_float; }

QuantizeRows::QuantizeRows(const Tensor& source, size_t target, size_t stride, Quantization to)
    : source_(source), target_(target), stride_(stride), to_(to) {}

void QuantizeRows::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(source_.shape[0]);
  for (size_t i = begin; i < end; ++i)
    int8_kernels().quantize_row(source_.from(context) + i * source_.strides[0], source_.shape[1],
                                to_.inverse(), to_.zero,
                                reinterpret_cast<uint8_t*>(context.arena + target_ + i * stride_));
}

double QuantizeRows::work() const { return static_cast<double>(source_.size()) * ns_per_float; }

Dequantize::Dequantize(const CellImage& source, const Tensor& target, Quantization from)
    : source_(source), target_(target), from_(from) {}

void Dequantize::run(const ThreadContext& context) const {
  const View& v = source_.view;
  const auto& s = target_.strides;
  size_t channels = target_.shape[1];
  auto [begin, end] = context.partition(target_.shape[0] * v.channels * v.height);
  for (size_t i = begin; i < end; ++i) {
    size_t y = i % v.height, quad = i / v.height % v.channels, sample = i / v.height / v.channels;
    float* rows[4] = {};
    for (size_t c = 0; c < std::min<size_t>(4, channels - 4 * quad); ++c)
      rows[c] = target_.to(context) + sample * s[0] + (4 * quad + c) * s[1] + y * s[2];
    int8_kernels().dequantize(context.arena + sample * source_.sample_stride + v.at(quad, y),
                              v.width, from_.scale, from_.zero, rows);
  }
}

double Dequantize::work() const { return static_cast<double>(target_.size()) * ns_per_float; }

// ---- cells to cells

void MoveCells::run(const ThreadContext& context) const {
  const View &in = source.view, &out = target.view;
  size_t phases = row.size();
  auto [begin, end] = context.partition(samples * out.channels);
  for (size_t i = begin; i < end; ++i) {
    size_t sample = i / out.channels, channel = i % out.channels, phase = channel % phases;
    float* to = context.arena + sample * target.sample_stride + out.offset +
                channel * out.channel_stride;
    fill_around(to, out, zero);
    to += out.origin;
    for (size_t y = 0; y < out.height; ++y, to += out.row_stride) {
      auto source_y = static_cast<int64_t>(y) * stride_y + row[phase];
      if (source_y < 0 || source_y >= static_cast<int64_t>(in.height)) {
        fill(to, out.width, zero);
        continue;
      }
      const float* from = context.arena + sample * source.sample_stride +
                          in.at(channel / phases, static_cast<size_t>(source_y));
      for (size_t x = 0; x < out.width; ++x) {
        auto source_x = static_cast<int64_t>(x) * stride_x + column[phase];
        if (source_x < 0 || source_x >= static_cast<int64_t>(in.width))
          fill(to + x, 1, zero);
        else
          std::memcpy(to + x, from + source_x, sizeof(float));
      }
    }
  }
}

double MoveCells::work() const {
  return static_cast<double>(samples * target.view.size()) * ns_per_float;
}

// Windows of columns that begin evenly, 1 or 2 apart, and have `length` entries each, but for those
// that the right edge cuts short: vectors of them are computed at a time.
struct PoolCells::Even {
  size_t begin = 0, end = 0, step = 1, length = 0;

  Even(const Pool::Axis& columns, size_t width) {
    size_t count = columns.begin.size(), dilation = static_cast<size_t>(columns.dilation);
    auto at = [&](size_t x) { return static_cast<size_t>(columns.begin[x]); };
    auto entries = [&](size_t x) {
      return divide_up(static_cast<size_t>(columns.end[x]) - at(x), dilation);
    };
    for (size_t x = 0; x < count; ++x) length = std::max(length, entries(x));
    while (begin < count && entries(begin) < length) ++begin;
    end = begin + 1;
    if (end < count && at(end) > at(begin)) step = at(end) - at(begin);
    if (step > 2) {
      end = begin;
      return;
    }
    auto whole = [&](size_t x) {  // as far as there are columns
      return divide_up(std::min(width - at(x), (length - 1) * dilation + 1), dilation);
    };
    while (end < count && at(end) == at(begin) + step * (end - begin) && entries(end) == whole(end))
      ++end;
  }

  // Cells after a row that kernels read.
  size_t reach(const Pool::Axis& columns) const {
    return length * static_cast<size_t>(columns.dilation) + 2 * int8_kernels().lanes;
  }
};

void PoolCells::run(const ThreadContext& context) const {
  const View &in = source.view, &out = target.view;
  const Pool::Axis &rows = pool->rows, &columns = pool->columns;
  const Int8Kernels& kernels = int8_kernels();
  const Even even(columns, in.width);
  auto covered = reinterpret_cast<const float**>(context.scratch);
  // Of the rows that an output row covers. That of the next is computed before this one is read:
  // vectors that overlap those stored just before would wait for these.
  size_t row_floats = in.width + even.reach(columns);
  float* largest_of[2] = {context.scratch + pool->address_floats,
                          context.scratch + pool->address_floats + row_floats};
  size_t dilation = static_cast<size_t>(columns.dilation);
  for (float* largest : largest_of)
    std::fill_n(largest + in.width, even.reach(columns), 0.f);  // no byte is smaller
  auto [begin, end] = context.partition(samples * out.channels);
  for (size_t i = begin; i < end; ++i) {
    size_t sample = i / out.channels, channel = i % out.channels;
    const float* from = context.arena + sample * source.sample_stride + in.at(channel);
    float* to = context.arena + sample * target.sample_stride + out.offset +
                channel * out.channel_stride;
    fill_around(to, out, zero);
    auto cover = [&](size_t y) {
      size_t count = 0;
      for (int32_t r = rows.begin[y]; r < rows.end[y]; r += rows.dilation)
        covered[count++] = from + static_cast<size_t>(r) * in.row_stride;
      kernels.largest_of_rows(covered, count, in.width, largest_of[y % 2]);
    };
    cover(0);
    for (size_t y = 0; y < out.height; ++y) {
      if (y + 1 < out.height) cover(y + 1);
      const float* largest = largest_of[y % 2];
      float* row = to + out.origin + y * out.row_stride;
      if (even.begin < even.end)
        kernels.largest_of_windows(largest + columns.begin[even.begin], even.step, even.length,
                                   dilation, even.end - even.begin, row + even.begin);
      for (size_t x = 0; x < out.width; ++x) {
        if (x == even.begin) x = even.end;
        if (x >= out.width) break;
        auto first = static_cast<size_t>(columns.begin[x]);
        kernels.largest_of_windows(
            largest + first, 1, divide_up(static_cast<size_t>(columns.end[x]) - first, dilation),
            dilation, 1, row + x);
      }
    }
  }
}

size_t PoolCells::scratch(size_t) const {
  Even even(pool->columns, source.view.width);
  return pool->address_floats + 2 * (source.view.width + even.reach(pool->columns));
}

double PoolCells::work() const {
  return static_cast<double>(samples * source.view.size()) * 2 * ns_per_float;
}

}  // namespace skinny
