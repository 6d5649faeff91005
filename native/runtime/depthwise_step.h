// A depthwise convolution: every output channel has one input channel, and an input channel has
// equally many output channels.
#pragma once

#include <array>
#include <vector>

#include "dense_depthwise.h"
#include "image_steps.h"

namespace skinny {

class Depthwise : public Step {
 public:
  struct Epilogue {
    std::vector<float> bias;  // of each output channel
    float low, high;
    Activation activation;
  };
  // weights: [output channel][kernel row][kernel column]; zeros cost nothing where most are zero.
  // Throws std::invalid_argument where sizes do not agree.
  Depthwise(const ImageArena& arena, const View& source, const View& target, const KernelShape& shape,
            const std::vector<float>& weights, Epilogue epilogue);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;
  bool reads(const View& value) const override { return in_.same_compact(value); }
  bool writes(const View& value) const override { return out_.same_compact(value); }

 private:
  // A strip of rows of one channel of one sample.
  struct Strip {
    size_t sample, channel, first, rows;
  };
  bool is_direct(const std::vector<float>& weights) const;
  void plan_direct(std::vector<float> weights);
  void plan_copies(const std::vector<float>& weights);
  Strip strip(size_t index) const;
  void next(Strip& strip) const;
  bool reads_beside(const View& in, size_t row) const;
  const float** rows_of(const ThreadContext& context, const Strip& strip) const;
  bool advance(const float** rows, const Strip& strip) const;
  void run_direct(const ThreadContext& context, Range items) const;
  void activate(const Strip& strip, float* to) const;
  void load(const ThreadContext& context, const Strip& strip, float* to) const;
  void convolve(const ThreadContext& context, const Strip& strip, const float* from) const;
  size_t strip_floats() const;
  size_t reach() const { return (shape_.kernel[0] - 1) * shape_.dilation[0]; }
  size_t rows_under(size_t rows) const { return (rows - 1) * shape_.stride[0] + reach() + 1; }

  View in_, out_;
  Samples samples_;
  KernelShape shape_;
  Epilogue epilogue_;
  size_t strip_rows_, strips_;
  std::vector<float> weights_;  // of all taps, or of those that are not zero
  // Usual kernels, dense, read the rows where they lie.
  bool direct_;
  DepthwiseColumns columns_;
  DenseDepthwiseKernel kernel_ = nullptr;
  std::vector<uint32_t> masks_;
  std::vector<float> zeros_;  // a row above or below the image
  // Others read copies of the rows under a strip, with their padding, by residues (PaddedRows).
  size_t entries_ = 0, residue_floats_ = 0, row_floats_ = 0;
  std::vector<size_t> first_;      // of each output channel, and after the last
  std::vector<int32_t> offsets_;  // of each non-zero tap
};

}  // namespace skinny
