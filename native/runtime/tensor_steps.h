// The steps of a tensor program (tensor_program.h). Tensors were checked when the step was added
// (bind_tensors.cpp): all their elements lie in their storages, and outputs are apart from inputs.
// Of threads, each does its range, as in steps.h.
#pragma once

#include "tensor.h"

namespace skinny {

// target = source, of the same shape and any strides.
class Copy : public Step {
 public:
  Copy(const Tensor& source, const Tensor& target);
  void run(const ThreadContext& context) const override;
  void run(const float* from, float* to, size_t rank, size_t size) const;  // from first elements
  double work() const override;

 private:
  Tensor source_, target_;
  Axes axes_;              // of the target and the source
  bool transposed_ = false;  // the source is contiguous along the last but one axis
};

class Fill : public Step {
 public:
  Fill(const Tensor& target, float value);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  Tensor target_;
  Axes axes_;
  float value_;
};

}  // namespace skinny
