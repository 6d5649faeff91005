#include "int8_steps.h"

#include <algorithm>
#include <cstring>

#include "require.h"
#include "workspace.h"

namespace skinny {
namespace {

constexpr double ns_per_quad = 0.3;  // of a vector, VNNI

// `count` cells of the zero point.
void fill(float* to, size_t count, int32_t zero) {
  uint32_t cell = static_cast<uint32_t>(zero) * 0x01010101u;
  for (size_t i = 0; i < count; ++i) std::memcpy(to + i, &cell, sizeof cell);
}

// What lies around the rows of one channel.
void fill_around(float* channel, const View& v, int32_t zero) {
  if (v.compact()) return;
  float* at = channel;
  for (size_t y = 0; y < v.height; ++y) {
    float* row = channel + v.origin + y * v.row_stride;
    fill(at, static_cast<size_t>(row - at), zero);
    at = row + v.width;
  }
  fill(at, static_cast<size_t>(channel + v.channel_stride - at), zero);
}

}  // namespace

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
  for (size_t i = begin; i < end; ++i) {
    size_t y = i % rows, quad = i / rows % v.channels, sample = i / rows / v.channels;
    float* channel = context.arena + v.offset + sample * target_.sample_stride +
                     quad * v.channel_stride;
    if (y == 0) fill_around(channel, v, to_.zero);
    const float* from = source_.from(context) + sample * s[0] + 4 * quad * s[1] + y * s[2];
    size_t count = std::min<size_t>(4, channels - 4 * quad);
    float* to = channel + v.origin + y * v.row_stride;
    const float* rows_of[4] = {};
    if (s[3] == 1 || length == 1) {
      for (size_t c = 0; c < count; ++c) rows_of[c] = from + c * s[1];
      int8_kernels().quantize(rows_of, length, to_.inverse(), to_.zero, to);
      continue;
    }
    for (size_t x = 0; x < length; x += at_once) {
      size_t some = std::min(at_once, length - x);
      for (size_t j = 0; j < some; ++j)
        for (size_t c = 0; c < count; ++c) gathered[c][j] = from[c * s[1] + (x + j) * s[3]];
      for (size_t c = 0; c < count; ++c) rows_of[c] = gathered[c];
      int8_kernels().quantize(rows_of, some, to_.inverse(), to_.zero, to + x);
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
  float* largest = context.scratch + pool->address_floats;
  size_t dilation = static_cast<size_t>(columns.dilation);
  std::fill_n(largest + in.width, even.reach(columns), 0.f);  // no byte is smaller
  auto [begin, end] = context.partition(samples * out.channels);
  for (size_t i = begin; i < end; ++i) {
    size_t sample = i / out.channels, channel = i % out.channels;
    const float* from = context.arena + sample * source.sample_stride + in.at(channel);
    float* to = context.arena + sample * target.sample_stride + out.offset +
                channel * out.channel_stride;
    fill_around(to, out, zero);
    for (size_t y = 0; y < out.height; ++y) {
      size_t count = 0;
      for (int32_t r = rows.begin[y]; r < rows.end[y]; r += rows.dilation)
        covered[count++] = from + static_cast<size_t>(r) * in.row_stride;
      kernels.largest_of_rows(covered, count, in.width, largest);
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
  return pool->address_floats + source.view.width + even.reach(pool->columns);
}

double PoolCells::work() const {
  return static_cast<double>(samples * source.view.size()) * 2 * ns_per_float;
}

// ---- layers

ConvInt8::ConvInt8(const CellImage& source, size_t samples, size_t height, size_t width,
                   size_t first, std::vector<int32_t> offsets,
                   std::shared_ptr<const Int8Weights> weights, const Target& target,
                   const Added& added)
    : source_(source),
      samples_(samples),
      height_(height),
      width_(width),
      first_(first),
      offsets_(std::move(offsets)),
      weights_(std::move(weights)),
      target_(target),
      added_(added) {
  require(offsets_.size() == weights_->taps(), "an offset for each tap is needed");
  for (int32_t offset : offsets_) require(offset >= 0, "a tap's offset must not be negative");
  size_t lanes = int8_kernels().lanes, stride = source_.view.row_stride;
  size_t flat = divide_up((height - 1) * stride + width, lanes);
  size_t out_rows = target_.cells ? target_.cells->view.row_stride : target_.floats->strides[2];
  size_t add_rows = added_.cells    ? added_.cells->view.row_stride
                    : added_.floats ? added_.floats->strides[2]
                                    : stride;
  add_slots(stride, flat < height * divide_up(width, lanes), out_rows, add_rows);
}

// The vectors of an image, and where their lanes go: row by row, or all rows as one long one, with
// what lies between them.
void ConvInt8::add_slots(size_t stride, bool flat, size_t out_rows, size_t add_rows) {
  size_t lanes = int8_kernels().lanes;
  auto offset = [](size_t row, size_t rows, size_t position, size_t row_begin) {
    return static_cast<int32_t>(static_cast<int64_t>(row * rows + position) -
                                static_cast<int64_t>(row_begin));
  };
  auto add = [&](size_t position, size_t end) {
    size_t first = pieces_.size();
    for (size_t p = position; p < end;) {
      size_t row = p / stride, row_end = std::min(row * stride + width_, end);
      if (p < row_end) {
        size_t lane = p - position, count = row_end - p;
        Int8Piece piece{offset(row, out_rows, position, row * stride),
                        offset(row, add_rows, position, row * stride),
                        static_cast<uint16_t>(lane), static_cast<uint16_t>(count)};
        Int8Piece* last = pieces_.size() > first ? &pieces_.back() : nullptr;
        if (last && last->out == piece.out && last->add == piece.add &&
            last->first + last->count == piece.first)
          last->count = static_cast<uint16_t>(last->count + piece.count);
        else
          pieces_.push_back(piece);
      }
      p = (row + 1) * stride;
    }
    if (first == pieces_.size()) return;
    slots_.push_back(static_cast<int32_t>(position));
    first_pieces_.push_back(static_cast<uint32_t>(pieces_.size()));
  };
  size_t whole = (height_ - 1) * stride + width_;
  if (flat)
    for (size_t p = 0; p < whole; p += lanes) add(p, std::min(p + lanes, whole));
  else
    for (size_t y = 0; y < height_; ++y)
      for (size_t x = 0; x < width_; x += lanes)
        add(y * stride + x, y * stride + std::min(x + lanes, width_));
}

size_t ConvInt8::last_read() const {
  return source_.view.offset + (samples_ - 1) * source_.sample_stride + first_ +
         static_cast<size_t>(slots_.back()) + int8_kernels().lanes - 1 +
         static_cast<size_t>(*std::max_element(offsets_.begin(), offsets_.end()));
}

void ConvInt8::run(const ThreadContext& context) const {
  size_t blocks = weights_->blocks().size(), strips = divide_up(slots_.size(), int8_vectors);
  size_t units = samples_ * strips;
  // where there are few strips, threads divide the output channels too
  size_t parts = std::min(blocks, std::max<size_t>(1, divide_up(4 * context.size, units)));
  if (context.size == 1) parts = 1;
  const jit::Int8Code* code = code_->get();
  if (target_.cells && !target_.cells->view.compact()) {
    const View& v = target_.cells->view;
    auto [begin, end] = context.partition(samples_ * v.channels);
    for (size_t i = begin; i < end; ++i)
      fill_around(context.arena + v.offset + i / v.channels * target_.cells->sample_stride +
                      i % v.channels * v.channel_stride,
                  v, target_.quantization.zero);
  }
  auto [begin, end] = context.partition(units * parts);
  for (size_t unit = begin; unit < end; ++unit) {
    size_t part = unit / units, sample = unit % units / strips, strip = unit % strips;
    size_t from = strip * slots_.size() / strips, to = (strip + 1) * slots_.size() / strips;
    auto [first, last] = partition(blocks, part, parts);
    for (size_t block = first; block < last; ++block)
      run_block(context, sample, block, from, to, code);
  }
}

void ConvInt8::run_block(const ThreadContext& context, size_t sample, size_t block, size_t begin,
                         size_t end, const jit::Int8Code* code) const {
  const Int8Kernels& kernels = int8_kernels();
  const Int8Weights::Block& own = weights_->blocks()[block];
  size_t rows = own.start.size(), lanes = kernels.lanes, first = block * int8_block;
  auto sums = reinterpret_cast<int32_t*>(context.scratch);
  const float* in[int8_vectors];
  const float* source =
      context.arena + source_.view.offset + sample * source_.sample_stride + first_;
  for (size_t i = begin; i < end; ++i) in[i - begin] = source + slots_[i];
  if (target_.cells) prefetch(context, sample, first, rows, begin, end);
  int32_t* quads = sums + int8_vectors * int8_block * lanes;
  Int8Rows all{own.first.data(),  own.taps.data(), own.rows.data(),
               own.quads.data(),  own.start.data(), offsets_.data() + own.first_tap,
               own.rows.size(), rows};
  if (code) {
    code->run(block, *weights_, in, end - begin, sums, quads);
  } else {
    if (own.packed()) {
      own.expand(0, own.count, 0, quads);
      all.quads = quads;
    }
    (weights_->by_tap() ? kernels.sums_by_tap : kernels.sums)(all, in, end - begin, sums);
  }
  Int8Output output{};
  output.cells = target_.cells.has_value();
  output.inverse = target_.quantization.inverse();
  output.zero = target_.quantization.zero;
  output.low = target_.low;
  output.high = target_.high;
  output.add_scale = added_.quantization.scale;
  output.add_zero = added_.quantization.zero;
  if (added_.cells) output.add = Int8Output::Add::cells;
  if (added_.floats) output.add = Int8Output::Add::floats;
  if (target_.floats) output.to_stride = target_.floats->strides[1];
  if (added_.floats) output.from_stride = added_.floats->strides[1];
  for (size_t row = 0; row < rows; row += 4) {
    size_t channel = first + row;
    output.scale = weights_->scale() + channel;
    output.bias = weights_->bias() + channel;
    output.channels = std::min<size_t>(4, rows - row);
    if (target_.cells)
      output.to = context.arena + sample * target_.cells->sample_stride +
                  target_.cells->view.at(channel / 4);
    else
      output.to = target_.floats->to(context) + sample * target_.floats->strides[0] +
                  channel * target_.floats->strides[1];
    if (added_.cells)
      output.from = context.arena + sample * added_.cells->sample_stride +
                    added_.cells->view.at(channel / 4);
    if (added_.floats)
      output.from = added_.floats->from(context) + sample * added_.floats->strides[0] +
                    channel * added_.floats->strides[1];
    kernels.finish(sums + row * lanes, rows * lanes, output, pieces_.data(),
                   first_pieces_.data() + begin, end - begin);
  }
}

// What the cells of a block are added to, and where they are stored, comes into the cache while its
// sums are computed.
void ConvInt8::prefetch(const ThreadContext& context, size_t sample, size_t channel, size_t rows,
                        size_t begin, size_t end) const {
  for (size_t row = channel; row < channel + rows; row += 4) {
    const float* to = context.arena + sample * target_.cells->sample_stride +
                      target_.cells->view.at(row / 4);
    const float* from = !added_.cells ? nullptr
                                      : context.arena + sample * added_.cells->sample_stride +
                                            added_.cells->view.at(row / 4);
    for (size_t i = begin; i < end; ++i) {
      const Int8Piece& piece = pieces_[first_pieces_[i]];
      __builtin_prefetch(to + piece.out + piece.first, 1);
      if (from) __builtin_prefetch(from + piece.add + piece.first);
    }
  }
}

size_t ConvInt8::scratch(size_t) const {
  return int8_vectors * int8_block * int8_kernels().lanes + weights_->most_packed();
}

double ConvInt8::work() const {
  double quads = static_cast<double>(weights_->quads() + 12 * weights_->outputs());
  return ns_per_quad * quads * static_cast<double>(samples_ * slots_.size());
}

void ConvInt8::generate(size_t, size_t most) const {
  if (!code_->get() && code_->begin()) code_->set(jit::Int8Code::make(*weights_, offsets_, most));
}

size_t ConvInt8::code_bytes() const { return code_->get() ? code_->get()->bytes() : 0; }

void LinearInt8::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(weights->outputs());
  weights->run(begin, end, reinterpret_cast<const uint8_t*>(context.arena + source),
               4 * source_stride, target.shape[0], low, high, target.to(context),
               target.strides[0]);
}

double LinearInt8::work() const {
  double bytes = static_cast<double>(weights->bytes());
  return 0.1 * bytes * static_cast<double>(divide_up(target.shape[0], 4));
}

}  // namespace skinny
