#include "direct_conv_step.h"

#include <algorithm>
#include <cstring>

#include "direct_conv.h"
#include "require.h"
#include "strided.h"

namespace skinny {
namespace {

constexpr size_t line_floats = 16;  // of a cache line

size_t lanes() { return SKINNY_CHOOSE(direct_conv).lanes; }
size_t block_channels() { return SKINNY_CHOOSE(direct_conv).block; }

}  // namespace

DirectWeights::DirectWeights(const float* weights, size_t outputs, size_t inputs,
                             const std::array<size_t, 2>& kernel)
    : outputs_(outputs), inputs_(inputs), kernel_(kernel) {
  size_t count = taps(), whole = round_up(outputs, lanes());
  packed_.reserve(product(whole, count));
  for (size_t block = 0; block < blocks(); ++block)
    for (size_t tap = 0; tap < count; ++tap)
      for (size_t i = 0; i < channels(block); ++i) {
        size_t channel = block * block_channels() + i;
        packed_.push_back(channel < outputs ? weights[channel * count + tap] : 0.f);
      }
}

size_t DirectWeights::blocks() const { return divide_up(outputs_, block_channels()); }

size_t DirectWeights::channels(size_t block) const {
  return std::min(block_channels(), round_up(outputs_, lanes()) - block * block_channels());
}

const float* DirectWeights::of(size_t block) const {
  return packed_.data() + block * block_channels() * taps();
}

DirectConv::DirectConv(const ImageArena& arena, const View& source, const View& target,
                       const std::array<size_t, 2>& stride, const std::array<size_t, 2>& padding,
                       std::shared_ptr<const DirectWeights> weights,
                       const std::vector<float>& bias, const Epilogue& epilogue)
    : in_(source), out_(target), samples_(arena.samples), kernel_(weights->kernel()),
      stride_(stride), padding_(padding), weights_(std::move(weights)), bias_(bias),
      epilogue_(epilogue) {
  check_samples(arena, source, target);
  check_kernel({kernel_, stride_, padding_, {1, 1}});
  require(weights_->inputs() == source.channels && weights_->outputs() == target.channels &&
              bias.size() == target.channels,
          "a convolution needs a kernel for each pair of output and input channel, and a bias for "
          "each output channel");
  bias_.resize(round_up(bias.size(), lanes()));
  size_t under = product(target.height - 1, stride[0]) + kernel_[0];
  row_floats_ = product(target.width - 1, stride[1]) + kernel_[1];
  pads_rows_ = padding[0] || under > source.height;
  copies_rows_ = padding[1] || row_floats_ > source.width;
  require(row_floats_ <= max_offset && address_floats() <= max_offset &&
              result_floats() <= max_offset && scratch(1) <= max_offset,
          "a convolution's rows are too long");
}

DirectConv::Item DirectConv::item(size_t index) const {
  size_t blocks = weights_->blocks(), row = index / blocks;
  return {row / out_.height, row % out_.height, index % blocks};
}

void DirectConv::copy_row(const float* from, float* to) const {
  size_t left = std::min(padding_[1], row_floats_);
  size_t width = std::min(in_.width, row_floats_ - left);
  std::fill_n(to, left, 0.f);
  std::memcpy(to + left, from, width * sizeof(float));
  std::fill_n(to + left + width, row_floats_ - left - width, 0.f);
}

// The addresses of the taps of a row of the result. The rows under the kernel are counted from the
// padding; those that are copied, and lie before `copied`, are in the ring buffer already.
void DirectConv::place_taps(const ThreadContext& context, const Item& own, size_t copied) const {
  auto taps = reinterpret_cast<const float**>(context.scratch);
  float* zeros = copies(context);
  float* copy = zeros + (pads_rows_ ? row_floats_ : 0);
  size_t begin = own.row * stride_[0];
  View in = in_.shifted(own.sample * samples_.in_stride);
  for (size_t channel = 0; channel < in.channels; ++channel) {
    for (size_t row = begin; row < begin + kernel_[0]; ++row) {
      const float* at = zeros;
      if (row >= padding_[0] && row - padding_[0] < in.height) {
        at = context.read(in_, in.at(channel, row - padding_[0]));
        if (copies_rows_) {
          float* to = copy + row % kernel_[0] * row_floats_;
          if (row >= copied) copy_row(at, to);
          at = to;
        }
      }
      for (size_t tap = 0; tap < kernel_[1]; ++tap) *taps++ = at + tap;
    }
    copy += kernel_[0] * row_floats_;
  }
}

void DirectConv::compute(const ThreadContext& context, const Item& own) const {
  float* result = context.scratch + address_floats();
  size_t first = own.block * block_channels(), whole = weights_->channels(own.block);
  SKINNY_CHOOSE(direct_conv)
      .run({reinterpret_cast<const float* const*>(context.scratch), weights_->taps(), stride_[1],
            weights_->of(own.block), bias_.data() + first, whole, epilogue_.low, epilogue_.high,
            result, out_.width});
  if (epilogue_.activation.kind != ActivationKind::none)
    SKINNY_CHOOSE(pointwise).activate(epilogue_.activation, result, result, out_.width * whole);
  size_t position = out_.at(first, own.row) + own.sample * samples_.out_stride;
  SKINNY_CHOOSE(strided).transpose(result, whole, context.write(out_, position),
                                   out_.channel_stride, std::min(whole, out_.channels - first),
                                   out_.width);
}

// Rows of the result one after the other, the blocks of a row together: they read the same rows.
void DirectConv::run(const ThreadContext& context) const {
  for (size_t sample = 0; sample < samples_.count; ++sample)
    zero_padding(out_.shifted(sample * samples_.out_stride), context,
                 context.partition(out_.channels), {0, out_.height});
  auto [begin, end] = context.partition(samples_.count * out_.height * weights_->blocks());
  if (pads_rows_) std::fill_n(copies(context), row_floats_, 0.f);
  size_t copied = 0;
  for (size_t index = begin; index < end; ++index) {
    Item own = item(index);
    if (index == begin || own.block == 0) {
      if (own.row == 0) copied = 0;
      place_taps(context, own, copied);
      copied = own.row * stride_[0] + kernel_[0];
    }
    compute(context, own);
  }
}

size_t DirectConv::address_floats() const {
  size_t bytes = product(weights_->taps(), sizeof(float*));
  return round_up(divide_up(bytes, sizeof(float)), line_floats);
}

size_t DirectConv::result_floats() const { return product(out_.width, weights_->channels(0)); }

float* DirectConv::copies(const ThreadContext& context) const {
  return context.scratch + address_floats() + result_floats();
}

size_t DirectConv::scratch(size_t) const {
  size_t rows = copies_rows_ ? product(in_.channels, kernel_[0]) : 0;
  return address_floats() + result_floats() + product(rows + pads_rows_, row_floats_);
}

double DirectConv::work() const {
  double positions = static_cast<double>(samples_.count * out_.height * out_.width);
  return static_cast<double>(out_.channels * weights_->taps()) * positions * ns_per_multiplication;
}

}  // namespace skinny
