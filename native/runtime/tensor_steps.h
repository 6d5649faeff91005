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

// target[i][j]... = source[index[0][i]][index[1][j]]..., as NumPy's ix_: padding with what lies
// inside, and reversed axes.
class Reindex : public Step {
 public:
  // index: for each axis, an entry of the source for each one of the target. Throws
  // std::invalid_argument where there is no such entry.
  Reindex(const Tensor& source, const Tensor& target,
          const std::vector<std::vector<int32_t>>& index);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  struct Axis {
    size_t stride;               // in the target
    std::vector<size_t> offsets;  // in the source
  };
  Tensor source_, target_;
  std::vector<Axis> axes_;            // that of the smallest stride last
  size_t run_begin_ = 0, run_end_ = 0;  // entries of the last axis that are neighbours in both
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
