#include "depthwise_step.h"

#include <algorithm>
#include <cstring>

#include "depthwise.h"
#include "require.h"
#include "workspace.h"

namespace skinny {
namespace {

constexpr size_t cached_floats = 4096;  // of a strip's input: two of them should stay in the cache

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
  entries_ = round_up(target.width, lanes) + reach_x / shape.stride[1];
  phase_floats_ = entries_ + lanes;
  row_floats_ = product(phase_floats_, shape.stride[1]);
  // Input rows under `rows` of output: (rows - 1) * stride + reach + 1.
  size_t fit = cached_floats / row_floats_;
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

Depthwise::Strip Depthwise::strip(size_t index) const {
  size_t first = index % strips_ * strip_rows_;
  return {index / strips_ / in_.channels, index / strips_ % in_.channels, first,
          std::min(strip_rows_, out_.height - first)};
}

void Depthwise::load(const ThreadContext& context, const Strip& own, float* to) const {
  View in = in_.shifted(own.sample * samples_.in_stride);
  size_t padding = shape_.padding[0], begin = own.first * shape_.stride[0];
  size_t reach = (shape_.kernel[0] - 1) * shape_.dilation[0];
  // Rows before the image, of it, and after it.
  size_t count = (own.rows - 1) * shape_.stride[0] + reach + 1;
  size_t before = padding > begin ? std::min(padding - begin, count) : 0;
  size_t row = begin + before - std::min(padding, begin + before);
  size_t inside = row < in.height ? std::min(in.height - row, count - before) : 0;
  std::memset(to, 0, before * row_floats_ * sizeof(float));
  if (inside)
    SKINNY_CHOOSE(depthwise).pad({context.at(in.at(own.channel, row)), in.row_stride, inside,
                                  in.width, shape_.stride[1], shape_.padding[1],
                                  to + before * row_floats_, phase_floats_, entries_});
  std::memset(to + (before + inside) * row_floats_, 0,
              (count - before - inside) * row_floats_ * sizeof(float));
}

void Depthwise::convolve(const ThreadContext& context, const Strip& own, const float* from) const {
  View out = out_.shifted(own.sample * samples_.out_stride);
  size_t each = out.channels / in_.channels;
  for (size_t o = own.channel * each; o < (own.channel + 1) * each; ++o) {
    float* to = context.at(out.at(o, own.first));
    SKINNY_CHOOSE(depthwise).convolve(
        {offsets_.data() + first_[o], weights_.data() + first_[o], first_[o + 1] - first_[o]},
        {from, shape_.stride[0] * row_floats_, to, out.row_stride, own.rows, out.width,
         epilogue_.bias[o], epilogue_.low, epilogue_.high});
    if (epilogue_.activation.kind == ActivationKind::none) continue;
    bool gaps = out.row_stride != out.width;  // without them, a strip is one long row
    size_t count = gaps ? own.rows : 1, floats = gaps ? out.width : own.rows * out.width;
    for (size_t row = 0; row < count; ++row, to += out.row_stride)
      SKINNY_CHOOSE(pointwise).activate(epilogue_.activation, to, to, floats);
  }
}

void Depthwise::run(const ThreadContext& context) const {
  for (size_t sample = 0; sample < samples_.count; ++sample)
    zero_padding(out_.shifted(sample * samples_.out_stride), context,
                 context.partition(out_.channels));
  auto [begin, end] = context.partition(samples_.count * in_.channels * strips_);
  // The next strip is loaded before this one is computed: what was stored a moment ago cannot be
  // read at other offsets at once.
  float* buffers[2] = {context.scratch, context.scratch + strip_floats()};
  if (begin < end) load(context, strip(begin), buffers[begin % 2]);
  for (size_t item = begin; item < end; ++item) {
    if (item + 1 < end) load(context, strip(item + 1), buffers[(item + 1) % 2]);
    convolve(context, strip(item), buffers[item % 2]);
  }
}

size_t Depthwise::strip_floats() const {
  size_t reach = (shape_.kernel[0] - 1) * shape_.dilation[0];
  return product((strip_rows_ - 1) * shape_.stride[0] + reach + 1, row_floats_);
}

size_t Depthwise::scratch(size_t) const { return product(2, strip_floats()); }

double Depthwise::work() const {
  double positions = static_cast<double>(samples_.count * out_.height * out_.width);
  double copied = static_cast<double>(samples_.count * in_.size());
  return static_cast<double>(weights_.size()) * positions * ns_per_multiplication +
         copied * ns_per_float;
}

}  // namespace skinny
