#include "depthwise_step.h"

#include <algorithm>
#include <cstring>

#include "depthwise.h"
#include "require.h"
#include "workspace.h"

namespace skinny {
namespace {

constexpr size_t cached_floats = 4096;  // of a strip's input: two of them should stay in the cache

// The number of floats that take as many bytes as `count` addresses.
size_t pointer_floats(size_t count) { return count * sizeof(float*) / sizeof(float); }

}  // namespace

Depthwise::Depthwise(const ImageArena& arena, const View& source, const View& target,
                     const KernelShape& shape, const std::vector<float>& weights, Epilogue epilogue)
    : in_(source), out_(target), samples_(arena.samples), shape_(shape),
      epilogue_(std::move(epilogue)) {
  check_samples(arena, source, target);
  check_kernel(shape);
  size_t taps = product(shape.kernel[0], shape.kernel[1]);
  require(target.channels % source.channels == 0 &&
              weights.size() == product(target.channels, taps) &&
              epilogue_.bias.size() == target.channels,
          "a depthwise convolution needs a kernel and a bias for each output channel, and equally "
          "many output channels for each input channel");
  columns_ = {shape.kernel[1], shape.stride[1], shape.padding[1], source.width, target.width};
  direct_ = is_direct(weights);
  if (direct_)
    plan_direct(weights);
  else
    plan_copies(weights);
  strips_ = divide_up(target.height, strip_rows_);
}

bool Depthwise::is_direct(const std::vector<float>& weights) const {
  const auto& [kernel, stride, padding, dilation] = shape_;
  const DenseDepthwiseKernels& kernels = SKINNY_CHOOSE(dense_depthwise);
  if (kernel[0] != kernel[1] || stride[0] != stride[1] || dilation[0] != 1 || dilation[1] != 1 ||
      !kernels.choose(columns_) || padding[0] > kernel[0] || padding[1] > kernel[1] ||
      kernels.readable(columns_) > in_.width + padding[1] + row_slack)
    return false;
  auto zeros = std::count(weights.begin(), weights.end(), 0.f);
  return static_cast<size_t>(zeros) * 2 <= weights.size();
}

void Depthwise::plan_direct(std::vector<float> weights) {
  constexpr size_t unit = 28;  // rows: enough work for a strip, and enough strips for all threads
  const DenseDepthwiseKernels& kernels = SKINNY_CHOOSE(dense_depthwise);
  kernel_ = kernels.choose(columns_);
  weights_ = std::move(weights);
  masks_.resize(kernels.masks(columns_, nullptr));
  kernels.masks(columns_, masks_.data());
  zeros_.resize(kernels.readable(columns_));
  strip_rows_ = std::min(unit, out_.height);
}

void Depthwise::plan_copies(const std::vector<float>& weights) {
  const KernelShape& shape = shape_;
  size_t lanes = SKINNY_CHOOSE(depthwise).lanes, reach_x = (shape.kernel[1] - 1) * shape.dilation[1];
  size_t taps = shape.kernel[0] * shape.kernel[1];
  entries_ = round_up(out_.width, lanes) + reach_x / shape.stride[1];
  residue_floats_ = entries_ + lanes;
  row_floats_ = product(residue_floats_, shape.stride[1]);
  size_t fit = cached_floats / row_floats_;
  strip_rows_ = fit > reach() + 1 ? (fit - reach() - 1) / shape.stride[0] + 1 : 1;
  strip_rows_ = std::min(std::max<size_t>(strip_rows_, 4), out_.height);
  require(scratch(1) <= max_offset, "a depthwise convolution's rows are too long");
  first_.push_back(0);
  for (size_t channel = 0; channel < out_.channels; ++channel) {
    for (size_t tap = 0; tap < taps; ++tap)
      if (float weight = weights[channel * taps + tap]; weight != 0) {
        size_t y = tap / shape.kernel[1] * shape.dilation[0];
        size_t x = tap % shape.kernel[1] * shape.dilation[1];
        offsets_.push_back(static_cast<int32_t>(y * row_floats_ +
                                                x % shape.stride[1] * residue_floats_ +
                                                x / shape.stride[1]));
        weights_.push_back(weight);
      }
    first_.push_back(weights_.size());
  }
}

Depthwise::Strip Depthwise::strip(size_t index) const {
  size_t first = index % strips_ * strip_rows_;
  return {index / strips_ / in_.channels, index / strips_ % in_.channels, first,
          std::min(strip_rows_, out_.height - first)};
}

// Whether the kernel, which reads more than a row, would leave the value at the row of a position.
bool Depthwise::reads_beside(const View& in, size_t row) const {
  return row < in.offset + columns_.padding || row + zeros_.size() > in.end() + columns_.padding;
}

// The rows under a strip, where they lie; copies of the first and the last rows of the image.
const float** Depthwise::rows_of(const ThreadContext& context, const Strip& own) const {
  View in = in_.shifted(own.sample * samples_.in_stride);
  size_t count = rows_under(own.rows), padding = shape_.padding[0];
  size_t begin = own.first * shape_.stride[0];  // counted from the padding
  size_t inside = std::min(padding > begin ? padding - begin : 0, count);
  size_t below = std::min(std::max(in.height + padding, begin) - begin, count);
  auto rows = reinterpret_cast<const float**>(context.scratch);
  const float* zeros = zeros_.data() + columns_.padding;
  std::fill_n(rows, inside, zeros);
  std::fill_n(rows + below, count - below, zeros);
  if (inside >= below) return rows;
  size_t position = in.at(own.channel, begin + inside - padding);
  float* copy = context.scratch + pointer_floats(count) + columns_.padding;
  for (size_t i = inside; i < below; ++i, position += in.row_stride) {
    rows[i] = context.read(in_, position);
    if (!reads_beside(in, position)) continue;
    std::memcpy(copy, rows[i], in.width * sizeof(float));
    rows[i] = copy;
    copy += zeros_.size() + in.width;
  }
  return rows;
}

// The strip after this one.
void Depthwise::next(Strip& own) const {
  own.first += strip_rows_;
  if (own.first >= out_.height) {
    own.first = 0;
    if (++own.channel == in_.channels) {
      own.channel = 0;
      ++own.sample;
    }
  }
  own.rows = std::min(strip_rows_, out_.height - own.first);
}

// Small images have a strip for each channel: its rows are those of the channel before, further on,
// unless these are copies.
bool Depthwise::advance(const float** rows, const Strip& own) const {
  if (strips_ > 1 || own.channel == 0 || reads_beside(in_, in_.at(own.channel - 1)) ||
      reads_beside(in_, in_.at(own.channel, in_.height - 1)))
    return false;
  size_t count = rows_under(own.rows), begin = std::min(shape_.padding[0], count);
  size_t end = std::min(begin + in_.height, count);
  for (size_t i = begin; i < end; ++i) rows[i] += in_.channel_stride;
  return true;
}

// Strips that follow each other without a gap are activated together, while they are in the cache.
void Depthwise::run_direct(const ThreadContext& context, Range items) const {
  constexpr size_t enough = 2048;  // floats
  size_t each = out_.channels / in_.channels, taps = columns_.kernel * columns_.kernel;
  float *begin = nullptr, *end = nullptr;
  auto activate_all = [&] {
    if (begin != end)
      SKINNY_CHOOSE(pointwise)
          .activate(epilogue_.activation, begin, begin, static_cast<size_t>(end - begin));
    begin = end;
  };
  Strip own = strip(items.begin);
  const float** rows = nullptr;
  DenseDepthwise work{nullptr, masks_.data(), nullptr, nullptr, out_.row_stride,
                      0,       0,             epilogue_.low, epilogue_.high};
  for (size_t item = items.begin; item < items.end; ++item, next(own)) {
    if (!rows || !advance(rows, own)) rows = rows_of(context, own);
    work.in = rows;
    work.rows = own.rows;
    for (size_t o = own.channel * each; o < (own.channel + 1) * each; ++o) {
      float* to = context.write(out_, out_.at(o, own.first) + own.sample * samples_.out_stride);
      work.weights = weights_.data() + o * taps;
      work.out = to;
      work.bias = epilogue_.bias[o];
      kernel_(columns_, work);
      if (epilogue_.activation.kind == ActivationKind::none) continue;
      if (out_.row_stride != out_.width) {
        activate(own, to);
        continue;
      }
      if (to != end || static_cast<size_t>(end - begin) >= enough) {
        activate_all();
        begin = to;
      }
      end = to + own.rows * out_.width;
    }
  }
  activate_all();
}

void Depthwise::activate(const Strip& own, float* to) const {
  if (epilogue_.activation.kind == ActivationKind::none) return;
  bool gaps = out_.row_stride != out_.width;  // without them, a strip is one long row
  size_t count = gaps ? own.rows : 1, floats = gaps ? out_.width : own.rows * out_.width;
  for (size_t row = 0; row < count; ++row, to += out_.row_stride)
    SKINNY_CHOOSE(pointwise).activate(epilogue_.activation, to, to, floats);
}

void Depthwise::load(const ThreadContext& context, const Strip& own, float* to) const {
  View in = in_.shifted(own.sample * samples_.in_stride);
  size_t padding = shape_.padding[0], begin = own.first * shape_.stride[0];
  // Rows before, in and after the image.
  size_t count = rows_under(own.rows);
  size_t before = padding > begin ? std::min(padding - begin, count) : 0;
  size_t row = begin + before - std::min(padding, begin + before);
  size_t inside = row < in.height ? std::min(in.height - row, count - before) : 0;
  std::memset(to, 0, before * row_floats_ * sizeof(float));
  if (inside)
    SKINNY_CHOOSE(depthwise).pad({context.read(in_, in.at(own.channel, row)), in.row_stride, inside,
                                  in.width, shape_.stride[1], shape_.padding[1],
                                  to + before * row_floats_, residue_floats_, entries_});
  std::memset(to + (before + inside) * row_floats_, 0,
              (count - before - inside) * row_floats_ * sizeof(float));
}

void Depthwise::convolve(const ThreadContext& context, const Strip& own, const float* from) const {
  View out = out_.shifted(own.sample * samples_.out_stride);
  size_t each = out.channels / in_.channels;
  for (size_t o = own.channel * each; o < (own.channel + 1) * each; ++o) {
    float* to = context.write(out_, out.at(o, own.first));
    SKINNY_CHOOSE(depthwise).convolve(
        {offsets_.data() + first_[o], weights_.data() + first_[o], first_[o + 1] - first_[o]},
        {from, shape_.stride[0] * row_floats_, to, out.row_stride, own.rows, out.width,
         epilogue_.bias[o], epilogue_.low, epilogue_.high});
    activate(own, to);
  }
}

void Depthwise::run(const ThreadContext& context) const {
  for (size_t sample = 0; sample < samples_.count; ++sample)
    zero_padding(out_.shifted(sample * samples_.out_stride), context,
                 context.partition(out_.channels), {0, out_.height});
  auto [begin, end] = context.partition(samples_.count * in_.channels * strips_);
  if (direct_) {
    run_direct(context, {begin, end});
    return;
  }
  // The next strip is loaded before this one is computed: what was stored a moment ago cannot be
  // read at other offsets at once.
  float* buffers[2] = {context.scratch, context.scratch + strip_floats()};
  if (begin < end) load(context, strip(begin), buffers[begin % 2]);
  for (size_t item = begin; item < end; ++item) {
    if (item + 1 < end) load(context, strip(item + 1), buffers[(item + 1) % 2]);
    convolve(context, strip(item), buffers[item % 2]);
  }
}

size_t Depthwise::strip_floats() const { return product(rows_under(strip_rows_), row_floats_); }

size_t Depthwise::scratch(size_t) const {
  if (!direct_) return product(2, strip_floats());
  // Padding is at most a kernel's side: as many rows, of one column each, are copied at the beginning.
  size_t rows = rows_under(strip_rows_), at_end = zeros_.size() / in_.row_stride + 1;
  size_t copies = std::min(rows, columns_.kernel + at_end);
  return pointer_floats(rows) + copies * (zeros_.size() + in_.width);
}

double Depthwise::work() const {
  double positions = static_cast<double>(samples_.count * out_.height * out_.width);
  double copied = static_cast<double>(samples_.count * in_.size());
  return static_cast<double>(weights_.size()) * positions * ns_per_multiplication +
         copied * ns_per_float;
}

}  // namespace skinny
