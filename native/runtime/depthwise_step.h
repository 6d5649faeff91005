// A depthwise convolution: every output channel has one input channel, and an input channel has
// equally many output channels.
#pragma once

#include <array>
#include <vector>

#include "image_steps.h"

namespace skinny {

class Depthwise : public Step {
 public:
  struct Shape {
    std::array<size_t, 2> kernel, stride, padding, dilation;  // rows, columns; padding: before them
  };
  struct Epilogue {
    std::vector<float> bias;  // of each output channel
    float low, high;
    Activation activation;
  };
  // weights: [output channel][kernel row][kernel column]; zeros cost nothing. Throws
  // std::invalid_argument where sizes do not agree.
  Depthwise(const ImageArena& arena, const View& source, const View& target, const Shape& shape,
            const std::vector<float>& weights, Epilogue epilogue);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  // A strip of rows of one channel of one sample.
  struct Strip {
    size_t sample, channel, first, rows;
  };
  Strip strip(size_t index) const;
  void load(const ThreadContext& context, const Strip& strip, float* to) const;
  void convolve(const ThreadContext& context, const Strip& strip, const float* from) const;
  size_t strip_floats() const;

  View in_, out_;
  Samples samples_;
  Shape shape_;
  Epilogue epilogue_;
  // The rows under a strip of output are copied, with their padding, in phases (PaddedRows).
  size_t entries_, phase_floats_, row_floats_, strip_rows_, strips_;
  std::vector<size_t> first_;      // of each output channel, and after the last
  std::vector<int32_t> offsets_;  // of each non-zero tap
  std::vector<float> weights_;
};

}  // namespace skinny
