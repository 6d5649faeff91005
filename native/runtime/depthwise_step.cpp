#include "depthwise_step.h"

#include <algorithm>
#include <cstring>

#include "depthwise.h"
#include "require.h"
#include "workspace.h"

namespace skinny {
namespace {

constexpr size_t strip_floats = 8192;  // of a strip's input, which should stay in the cache

}  // namespace

Depthwise::Depthwise(const ImageArena& arena, const View& source, const View& target,
                     const Shape& shape, const std::vector<float>& weights, Epilogue epilogue)
    : in_(source), out_(target), samples_(arena.samples), shape_(shape),
      epilogue_(std::move(epilogue)) {
  check_samples(arena, source, target);
  for (const auto& sides : {shape.kernel, shape.stride, shape.dilation})
    for (size_t side : sides)
      require(side && side <= max_offset, "a kernel, a stride and a dilation are 1 at least");
  for (size_t side : shape.padding) require(side <= max_offset, "a padding is too large");
  size_t taps = product(shape.kernel[0], shape.kernel[1]);
  require(target.channels % source.channels == 0 &&
              weights.size() == product(target.channels, taps) &&
              epilogue_.bias.size() == target.channels,
          "a depthwise convolution needs a kernel and a bias for each output channel, and equally "
          "many output channels for each input channel");
  size_t lanes = SKINNY_CHOOSE(depthwise).lanes, reach_x = (shape.kernel[1] - 1) * shape.dilation[1];
  size_t reach_y = (shape.kernel[0] - 1) * shape.dilation[0];
  phase_floats_ = round_up(target.width, lanes) + reach_x / shape.stride[1];
  row_floats_ = product(phase_floats_, shape.stride[1]);
  // Input rows under `rows` of output: (rows - 1) * stride + reach + 1.
  size_t fit = strip_floats / row_floats_;
  strip_rows_ = fit > reach_y + 1 ? (fit - reach_y - 1) / shape.stride[0] + 1 : 1;
  strip_rows_ = std::min(std::max<size_t>(strip_rows_, 4), target.height);
  strips_ = (target.height + strip_rows_ - 1) / strip_rows_;
  require(scratch(1) <= max_offset, "a depthwise convolution's rows are too long");
  first_.push_back(0);
  for (size_t channel = 0; channel < target.channels; ++channel) {
    for (size_t tap = 0; tap < taps; ++tap)
      if (float weight = weights[channel * taps + tap]; weight != 0) {
        size_t y = tap / shape.kernel[1] * shape.dilation[0];
        size_t x = tap % shape.kernel[1] * shape.dilation[1];
        offsets_.push_back(static_cast<int32_t>(y * row_floats_ +
                                                x % shape.stride[1] * phase_floats_ +
                                                x / shape.stride[1]));
        weights_.push_back(weight);
      }
    first_.push_back(weights_.size());
  }
}

// Copies a row of input, or zeros if `from` is null, with its padding, in phases.
void Depthwise::load_row(const float* from, float* to) const {
  size_t stride = shape_.stride[1], padding = shape_.padding[1];
  if (!from) {
    std::memset(to, 0, row_floats_ * sizeof(float));
    return;
  }
  for (size_t phase = 0; phase < stride; ++phase) {
    float* at = to + phase * phase_floats_;
    // Entries [begin, end) of the phase have a source: column entry * stride + phase - padding.
    size_t begin = padding > phase ? (padding - phase + stride - 1) / stride : 0;
    size_t after = padding + in_.width;
    size_t end = after > phase ? (after - phase + stride - 1) / stride : 0;
    begin = std::min(begin, phase_floats_);
    end = std::clamp(end, begin, phase_floats_);
    std::memset(at, 0, begin * sizeof(float));
    std::memset(at + end, 0, (phase_floats_ - end) * sizeof(float));
    if (begin == end || stride == 2) continue;
    const float* source = from + (begin * stride + phase - padding);
    if (stride == 1)
      std::memcpy(at + begin, source, (end - begin) * sizeof(float));
    else
      for (size_t i = begin; i < end; ++i) at[i] = source[(i - begin) * stride];
  }
  // A stride of two is the usual one. Column 0 belongs to the phase of the padding's parity.
  size_t odd = padding % 2, half = padding / 2;
  if (stride != 2 || phase_floats_ <= half) return;
  size_t count = std::min(in_.width, 2 * (phase_floats_ - half) - odd);
  SKINNY_CHOOSE(depthwise).deinterleave(from, count, to + odd * phase_floats_ + half,
                                        to + (1 - odd) * phase_floats_ + half + odd);
}

void Depthwise::run_strip(const ThreadContext& context, size_t sample, size_t channel,
                          size_t strip) const {
  View in = in_.shifted(sample * samples_.in_stride);
  View out = out_.shifted(sample * samples_.out_stride);
  size_t first = strip * strip_rows_, rows = std::min(strip_rows_, out.height - first);
  size_t stride = shape_.stride[0], reach = (shape_.kernel[0] - 1) * shape_.dilation[0];
  for (size_t i = 0; i < (rows - 1) * stride + reach + 1; ++i) {
    size_t padded = first * stride + i, row = padded - shape_.padding[0];
    bool inside = padded >= shape_.padding[0] && row < in.height;
    load_row(inside ? context.at(in.at(channel, row)) : nullptr,
             context.scratch + i * row_floats_);
  }
  size_t each = out.channels / in.channels;
  for (size_t o = channel * each; o < (channel + 1) * each; ++o) {
    float* to = context.at(out.at(o, first));
    SKINNY_CHOOSE(depthwise).convolve(
        {offsets_.data() + first_[o], weights_.data() + first_[o], first_[o + 1] - first_[o]},
        {context.scratch, stride * row_floats_, to, out.row_stride, rows, out.width,
         epilogue_.bias[o], epilogue_.low, epilogue_.high});
    if (epilogue_.activation.kind != ActivationKind::none)
      for (size_t row = 0; row < rows; ++row, to += out.row_stride)
        SKINNY_CHOOSE(pointwise).activate(epilogue_.activation, to, to, out.width);
  }
}

void Depthwise::run(const ThreadContext& context) const {
  size_t each = in_.channels * strips_;
  for (size_t sample = 0; sample < samples_.count; ++sample)
    zero_padding(out_.shifted(sample * samples_.out_stride), context,
                 context.partition(out_.channels));
  auto [begin, end] = context.partition(samples_.count * each);
  for (size_t item = begin; item < end; ++item)
    run_strip(context, item / each, item % each / strips_, item % strips_);
}

size_t Depthwise::scratch(size_t) const {
  size_t reach = (shape_.kernel[0] - 1) * shape_.dilation[0];
  return product((strip_rows_ - 1) * shape_.stride[0] + reach + 1, row_floats_);
}

double Depthwise::work() const {
  double positions = static_cast<double>(samples_.count * out_.height * out_.width);
  double copied = static_cast<double>(samples_.count * in_.size());
  return static_cast<double>(weights_.size()) * positions * ns_per_multiplication +
         copied * ns_per_float;
}

}  // namespace skinny
