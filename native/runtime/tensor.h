// Where a value of a tensor program lies: a strided tensor in the arena or in a constant.
#pragma once

#include <array>
#include <vector>

#include "steps.h"

namespace skinny {

constexpr size_t max_rank = 8;

struct Tensor {
  size_t storage = 0;  // 0 is the arena, i > 0 the program's constant i
  size_t offset = 0;   // of the first element, in floats
  size_t rank = 0;
  std::array<size_t, max_rank> shape{}, strides{};  // a stride of 0: broadcast
  const float* constant = nullptr;  // where the storage begins, unless it is the arena

  const float* from(const ThreadContext& context) const {
    return (constant ? constant : context.arena) + offset;
  }
  float* to(const ThreadContext& context) const { return context.arena + offset; }
  size_t size() const;
  size_t extent() const;  // from the first element to the last
  bool same(const Tensor& other) const;  // the same elements in the same order
  Tensor broadcast(const Tensor& target) const;  // to its shape; it must be possible
};

// Whether two tensors are sure to have no element in common.
bool apart(const Tensor& a, const Tensor& b);
// Whether all elements are sure to lie at different offsets.
bool distinct(const Tensor& tensor);

// The axes that tensors of one shape are walked along. The axis along which the first, the target,
// has its smallest stride is the innermost; neighbouring axes that are contiguous in all tensors
// are merged, and axes of one entry left out.
struct Axes {
  size_t rank = 0;
  std::array<size_t, max_rank> shape{};
  std::vector<std::array<size_t, max_rank>> strides;  // of each tensor

  explicit Axes(const std::vector<Tensor>& tensors);
  size_t inner() const { return rank ? shape[rank - 1] : 1; }
  size_t inner_stride(size_t tensor) const { return rank ? strides[tensor][rank - 1] : 1; }
  size_t rows(size_t outer) const;  // positions of the first `outer` axes
  void move_inwards(size_t axis, size_t to);
};

// Walks positions of the first `outer` axes in order, with the offset of each tensor.
class Walk {
 public:
  static constexpr size_t max_tensors = 24;
  Walk(const Axes& axes, size_t outer, size_t index);
  void next();
  size_t operator[](size_t tensor) const { return offsets_[tensor]; }

 private:
  const Axes& axes_;
  const size_t outer_;
  std::array<size_t, max_rank> index_{};
  std::array<size_t, max_tensors> offsets_{};
};

}  // namespace skinny
