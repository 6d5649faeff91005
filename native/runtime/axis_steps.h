// The steps along one axis (axis.h): of tensors [outer, axis, inner], of any strides.
#pragma once

#include <memory>

#include "axis.h"
#include "int8_table.h"
#include "tensor.h"

namespace skinny {

// How a step along the axis of a source and a target is divided: into columns, where the inner axis
// is contiguous in both; into rows, where the axis is; else into columns of one float.
class AlongAxis : public Step {
 public:
  // The target is [outer, axis, inner], or [outer, inner] of a reduction.
  AlongAxis(const Tensor& source, const Tensor& target);
  void run(const ThreadContext& context) const override;

 protected:
  struct Columns {
    const float* from;
    float* to;
    size_t inner;
  };
  virtual void run_columns(const Columns& columns) const = 0;
  virtual void run_row(const float* from, float* to) const = 0;

  size_t axis() const { return source_.shape[1]; }
  size_t from_stride() const { return source_.strides[1]; }
  size_t to_stride() const { return target_.rank == 3 ? target_.strides[1] : 0; }
  double elements() const { return static_cast<double>(source_.size()); }

 private:
  Tensor source_, target_;
  size_t to_inner_stride_;
  bool rows_, columns_;
};

// In place, too.
class Norm : public AlongAxis {
 public:
  // weight, bias: one for each entry of the axis, or empty
  Norm(const Tensor& source, const Tensor& target, std::vector<float> weight,
       std::vector<float> bias, float eps, bool subtract_mean);
  double work() const override { return elements() * 3 * ns_per_float; }

 protected:
  void run_columns(const Columns& columns) const override;
  void run_row(const float* from, float* to) const override;

 private:
  Normalisation norm() const;
  std::vector<float> weight_, bias_;
  float eps_;
  bool subtract_mean_;
};

// In place, too.
class TensorSoftmax : public AlongAxis {
 public:
  TensorSoftmax(const Tensor& source, const Tensor& target, bool log);
  double work() const override { return elements() * 5 * ns_per_float; }

 protected:
  void run_columns(const Columns& columns) const override;
  void run_row(const float* from, float* to) const override;

 private:
  bool log_;
};

class Reduce : public AlongAxis {
 public:
  Reduce(ReduceKind kind, const Tensor& source, const Tensor& target);
  double work() const override { return elements() * ns_per_float; }

 protected:
  void run_columns(const Columns& columns) const override;
  void run_row(const float* from, float* to) const override;

 private:
  ReduceKind kind_;
};

// target[i..., :] = table[index[i...], :], of floats, or of integers times the row's scale
class Gather : public Step {
 public:
  Gather(const Tensor& table, const Tensor& index, const Tensor& target);
  Gather(std::shared_ptr<const Int8Table> table, const Tensor& index, const Tensor& target);
  void run(const ThreadContext& context) const override;
  double work() const override;

 private:
  void copy(const float* table, const size_t* rows, float* const* to, size_t count) const;
  void scale(const size_t* rows, float* const* to, size_t count) const;

  Tensor table_, index_, target_;
  std::shared_ptr<const Int8Table> integers_;
  Axes axes_;  // of the target without its last axis, and of the index
};

}  // namespace skinny
