#include "direct_conv_step.h"

#include <algorithm>
#include <cstring>

#include "direct_conv.h"
#include "require.h"
#include "strided.h"

namespace skinny {
namespace {

constexpr size_t line_floats = 16;  // of a cache line

}  // namespace

DirectConv::DirectConv(const ImageArena& arena, const View& source, const View& target,
                       const KernelShape& shape, const std::vector<float>& weights,
                       const std::vector<float>& bias, const Epilogue& epilogue)
    : in_(source), out_(target), samples_(arena.samples), shape_(shape), epilogue_(epilogue) {
  check_samples(arena, source, target);
  check_kernel(shape);
  taps_ = product(source.channels, product(shape.kernel[0], shape.kernel[1]));
  require(weights.size() == product(target.channels, taps_) && bias.size() == target.channels,
          "a convolution needs a kernel for each pair of output and input channel, and a bias for "
          "each output channel");
  const DirectConvKernels& kernels = SKINNY_CHOOSE(direct_conv);
  lanes_ = kernels.lanes;
  block_ = kernels.block;
  blocks_ = divide_up(target.channels, block_);
  size_t whole = round_up(target.channels, lanes_);
  weights_.reserve(product(whole, taps_));
  for (size_t block = 0; block < blocks_; ++block)
    for (size_t tap = 0; tap < taps_; ++tap)
      for (size_t c = block * block_; c < std::min((block + 1) * block_, whole); ++c)
        weights_.push_back(c < target.channels ? weights[c * taps_ + tap] : 0.f);
  bias_ = bias;
  bias_.resize(whole);
  size_t under = product(target.height - 1, shape.stride[0]) + shape.kernel[0];
  row_floats_ = product(target.width - 1, shape.stride[1]) + shape.kernel[1];
  pads_rows_ = shape.padding[0] || under > source.height;
  copies_rows_ = shape.padding[1] || row_floats_ > source.width;
  require(row_floats_ <= max_offset && scratch(1) <= max_offset,
          "a convolution's rows are too long");
}

DirectConv::Item DirectConv::item(size_t index) const {
  size_t row = index / blocks_;
  return {row / out_.height, row % out_.height, index % blocks_};
}

size_t DirectConv::channels(size_t block) const {
  return std::min(block_, out_.channels - block * block_);
}

void DirectConv::copy_row(const float* from, float* to) const {
  size_t left = std::min(shape_.padding[1], row_floats_);
  size_t width = std::min(in_.width, row_floats_ - left);
  std::fill_n(to, left, 0.f);
  std::memcpy(to + left, from, width * sizeof(float));
  std::fill_n(to + left + width, row_floats_ - left - width, 0.f);
}

// The addresses of the taps of a row of the result. The rows under the kernel are counted from the
// padding; those before `copied` are in the ring buffer already.
void DirectConv::find_taps(const ThreadContext& context, const Item& own, size_t copied) const {
  auto taps = reinterpret_cast<const float**>(context.scratch);
  float* zeros = copies(context);
  float* copy = zeros + (pads_rows_ ? row_floats_ : 0);
  size_t begin = own.row * shape_.stride[0], padding = shape_.padding[0];
  View in = in_.shifted(own.sample * samples_.in_stride);
  for (size_t channel = 0; channel < in.channels; ++channel) {
    for (size_t row = begin; row < begin + shape_.kernel[0]; ++row) {
      const float* at = zeros;
      if (row >= padding && row - padding < in.height) {
        at = context.read(in_, in.at(channel, row - padding));
        if (copies_rows_) {
          float* to = copy + row % shape_.kernel[0] * row_floats_;
          if (row >= copied) copy_row(at, to);
          at = to;
        }
      }
      for (size_t tap = 0; tap < shape_.kernel[1]; ++tap) *taps++ = at + tap;
    }
    copy += shape_.kernel[0] * row_floats_;
  }
}

void DirectConv::compute(const ThreadContext& context, const Item& own) const {
  float* result = context.scratch + address_floats();
  size_t count = channels(own.block), whole = round_up(count, lanes_);
  size_t position = out_.at(own.block * block_, own.row) + own.sample * samples_.out_stride;
  SKINNY_CHOOSE(direct_conv)
      .run({reinterpret_cast<const float* const*>(context.scratch), taps_, shape_.stride[1],
            weights_.data() + own.block * block_ * taps_, bias_.data() + own.block * block_, whole,
            epilogue_.low, epilogue_.high, result, out_.width});
  if (epilogue_.activation.kind != ActivationKind::none)
    SKINNY_CHOOSE(pointwise).activate(epilogue_.activation, result, result, out_.width * whole);
  SKINNY_CHOOSE(strided).transpose(result, whole, context.write(out_, position),
                                   out_.channel_stride, count, out_.width);
}

// Rows of the result one after the other, the blocks of a row together: they read the same rows.
void DirectConv::run(const ThreadContext& context) const {
  for (size_t sample = 0; sample < samples_.count; ++sample)
    zero_padding(out_.shifted(sample * samples_.out_stride), context,
                 context.partition(out_.channels), {0, out_.height});
  auto [begin, end] = context.partition(samples_.count * out_.height * blocks_);
  if (pads_rows_) std::fill_n(copies(context), row_floats_, 0.f);
  size_t copied = 0;
  for (size_t index = begin; index < end; ++index) {
    Item own = item(index);
    if (index == begin || own.block == 0) {
      if (own.row == 0) copied = 0;
      find_taps(context, own, copied);
      copied = own.row * shape_.stride[0] + shape_.kernel[0];
    }
    compute(context, own);
  }
}

size_t DirectConv::address_floats() const {
  size_t bytes = product(taps_, sizeof(float*));
  return round_up(divide_up(bytes, sizeof(float)), line_floats);
}

size_t DirectConv::result_floats() const { return product(out_.width, block_); }

float* DirectConv::copies(const ThreadContext& context) const {
  return context.scratch + address_floats() + result_floats();
}

size_t DirectConv::scratch(size_t) const {
  size_t rows = copies_rows_ ? product(in_.channels, shape_.kernel[0]) : 0;
  return address_floats() + result_floats() + product(rows + pads_rows_, row_floats_);
}

double DirectConv::work() const {
  double positions = static_cast<double>(samples_.count * out_.height * out_.width);
  return static_cast<double>(out_.channels * taps_) * positions * ns_per_multiplication;
}

}  // namespace skinny
