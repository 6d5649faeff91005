#include "tensor.h"

#include <algorithm>

namespace skinny {
namespace {

size_t extent_of(const Tensor& t, size_t modulus) {
  size_t extent = 0;
  for (size_t axis = 0; axis < t.rank; ++axis)
    if (modulus == 0 || t.strides[axis] % modulus)
      extent += (t.shape[axis] - 1) * t.strides[axis];
  return extent;
}

}  // namespace

size_t Tensor::size() const {
  size_t size = 1;
  for (size_t axis = 0; axis < rank; ++axis) size *= shape[axis];
  return size;
}

size_t Tensor::extent() const { return extent_of(*this, 0); }

bool Tensor::same(const Tensor& other) const {
  return storage == other.storage && offset == other.offset && rank == other.rank &&
         shape == other.shape && strides == other.strides;
}

Tensor Tensor::broadcast(const Tensor& target) const {
  Tensor wide = *this;
  wide.rank = target.rank;
  wide.shape = target.shape;
  size_t missing = target.rank - rank;
  for (size_t axis = 0; axis < target.rank; ++axis)
    wide.strides[axis] =
        axis < missing || shape[axis - missing] == 1 ? 0 : strides[axis - missing];
  return wide;
}

bool apart(const Tensor& a, const Tensor& b) {
  if (a.storage != b.storage || a.offset + a.extent() < b.offset ||
      b.offset + b.extent() < a.offset)
    return true;
  // Or they lie in different ranges of the remainders by a stride that they share, like ranges of
  // the channels of one image.
  for (size_t axis = 0; axis < b.rank; ++axis) {
    size_t period = b.strides[axis];
    if (period == 0) continue;
    size_t first = a.offset % period, second = b.offset % period;
    size_t first_end = first + extent_of(a, period), second_end = second + extent_of(b, period);
    if (first_end < period && second_end < period && (first_end < second || second_end < first))
      return true;
  }
  return false;
}

bool distinct(const Tensor& tensor) {
  std::vector<std::pair<size_t, size_t>> axes;  // stride and shape
  for (size_t axis = 0; axis < tensor.rank; ++axis)
    if (tensor.shape[axis] > 1) axes.emplace_back(tensor.strides[axis], tensor.shape[axis]);
  std::sort(axes.begin(), axes.end());
  size_t extent = 0;
  for (auto [stride, side] : axes) {
    if (stride <= extent) return false;
    extent += stride * (side - 1);
  }
  return true;
}

Axes::Axes(const std::vector<Tensor>& tensors) : strides(tensors.size()) {
  const Tensor& target = tensors[0];
  std::vector<size_t> order;
  for (size_t axis = 0; axis < target.rank; ++axis)
    if (target.shape[axis] > 1) order.push_back(axis);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return target.strides[a] > target.strides[b];
  });
  for (size_t axis : order) {
    size_t side = target.shape[axis];
    bool merged = rank > 0;
    for (size_t t = 0; merged && t < tensors.size(); ++t)
      merged = strides[t][rank - 1] == side * tensors[t].strides[axis];
    if (merged)
      shape[rank - 1] *= side;
    else
      shape[rank++] = side;
    for (size_t t = 0; t < tensors.size(); ++t) strides[t][rank - 1] = tensors[t].strides[axis];
  }
}

size_t Axes::rows(size_t outer) const {
  size_t rows = 1;
  for (size_t axis = 0; axis < outer; ++axis) rows *= shape[axis];
  return rows;
}

void Axes::move_inwards(size_t axis, size_t to) {
  auto rotate = [&](std::array<size_t, max_rank>& of) {
    std::rotate(of.begin() + axis, of.begin() + axis + 1, of.begin() + to + 1);
  };
  rotate(shape);
  for (auto& of : strides) rotate(of);
}

Walk::Walk(const Axes& axes, size_t outer, size_t index) : axes_(axes), outer_(outer) {
  for (size_t axis = outer; axis-- > 0;) {
    index_[axis] = index % axes.shape[axis];
    index /= axes.shape[axis];
    for (size_t t = 0; t < axes.strides.size(); ++t)
      offsets_[t] += index_[axis] * axes.strides[t][axis];
  }
}

void Walk::next() {
  for (size_t axis = outer_; axis-- > 0;) {
    bool carry = ++index_[axis] == axes_.shape[axis];
    for (size_t t = 0; t < axes_.strides.size(); ++t) {
      size_t stride = axes_.strides[t][axis];
      offsets_[t] += stride;
      if (carry) offsets_[t] -= stride * axes_.shape[axis];
    }
    if (!carry) return;
    index_[axis] = 0;
  }
}

}  // namespace skinny
