// A dense convolution of an image of few channels, of any stride and without dilation: see
// direct_conv.h.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "image_steps.h"
#include "pages.h"

namespace skinny {

// The weights of such a layer in the order in which the kernel reads them, for all programs.
class DirectWeights {
 public:
  // weights: [output channel][input channel][kernel row][kernel column].
  DirectWeights(const float* weights, size_t outputs, size_t inputs,
                const std::array<size_t, 2>& kernel);
  size_t outputs() const { return outputs_; }
  size_t inputs() const { return inputs_; }
  const std::array<size_t, 2>& kernel() const { return kernel_; }
  size_t taps() const { return inputs_ * kernel_[0] * kernel_[1]; }  // of an output channel
  // Output channels that are computed together, and those of one such block: whole vectors.
  size_t blocks() const;
  size_t channels(size_t block) const;
  const float* of(size_t block) const;
  size_t bytes() const { return packed_.size() * sizeof(float); }

 private:
  size_t outputs_, inputs_;
  std::array<size_t, 2> kernel_;
  std::vector<float, InPages<float>> packed_;  // [block][tap][channel of the block]
};

class DirectConv : public Step {
 public:
  // padding: before the first row and column. Throws std::invalid_argument where sizes do not agree.
  DirectConv(const ImageArena& arena, const View& source, const View& target,
             const std::array<size_t, 2>& stride, const std::array<size_t, 2>& padding,
             std::shared_ptr<const DirectWeights> weights, const std::vector<float>& bias,
             const Epilogue& epilogue);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;
  bool reads(const View& value) const override { return in_.same_compact(value); }
  bool writes(const View& value) const override { return out_.same_compact(value); }

 private:
  // A row of the result, of a block of channels.
  struct Item {
    size_t sample, row, block;
  };
  Item item(size_t index) const;
  void place_taps(const ThreadContext& context, const Item& own, size_t copied) const;
  void copy_row(const float* from, float* to) const;
  void compute(const ThreadContext& context, const Item& own) const;
  // This thread's own memory: addresses of taps, a row of the result, zeros and copies of rows.
  size_t address_floats() const;
  size_t result_floats() const;
  float* copies(const ThreadContext& context) const;

  View in_, out_;
  Samples samples_;
  std::array<size_t, 2> kernel_, stride_, padding_;
  std::shared_ptr<const DirectWeights> weights_;
  std::vector<float> bias_;  // of whole vectors
  Epilogue epilogue_;
  size_t row_floats_;  // that a row of the result reads of an input row, padding included
  // Rows are read where they lie, unless the kernel reaches beside them: then a ring buffer holds
  // copies of those under the kernel, with zeros around them. Above and below the image, a row of
  // zeros is read.
  bool copies_rows_, pads_rows_;
};

}  // namespace skinny
