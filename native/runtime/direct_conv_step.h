// A dense convolution of an image of few channels, of any stride and without dilation: see
// direct_conv.h.
#pragma once

#include <vector>

#include "image_steps.h"
#include "pages.h"

namespace skinny {

class DirectConv : public Step {
 public:
  // weights: [output channel][input channel][kernel row][kernel column]. Throws
  // std::invalid_argument where sizes do not agree.
  DirectConv(const ImageArena& arena, const View& source, const View& target,
             const KernelShape& shape, const std::vector<float>& weights,
             const std::vector<float>& bias, const Epilogue& epilogue);
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
  size_t channels(size_t block) const;  // of the result
  void find_taps(const ThreadContext& context, const Item& own, size_t copied) const;
  void copy_row(const float* from, float* to) const;
  void compute(const ThreadContext& context, const Item& own) const;
  // This thread's own memory: addresses of taps, a row of the result, zeros and copies of rows.
  size_t address_floats() const;
  size_t result_floats() const;
  float* copies(const ThreadContext& context) const;

  View in_, out_;
  Samples samples_;
  KernelShape shape_;
  Epilogue epilogue_;
  size_t lanes_, block_, blocks_;
  size_t taps_;               // of an output channel
  std::vector<float, InPages<float>> weights_;  // [block][tap][channel of the block], whole vectors
  std::vector<float> bias_;
  size_t row_floats_;  // that a row of the result reads of an input row, padding included
  // Rows are read where they lie, unless the kernel reaches beside them: then a ring buffer holds
  // copies of those under the kernel, with zeros around them. Above and below the image, a row of
  // zeros is read.
  bool copies_rows_, pads_rows_;
};

}  // namespace skinny
