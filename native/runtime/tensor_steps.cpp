#include "tensor_steps.h"

#include <algorithm>
#include <cstring>

#include "strided.h"

namespace skinny {
namespace {

constexpr size_t chunk = 4096;      // floats of a row that threads divide
constexpr size_t block_rows = 64;  // of a transposed matrix, done in one go

}  // namespace

Copy::Copy(const Tensor& source, const Tensor& target)
    : source_(source), target_(target), axes_({target, source}) {
  if (axes_.rank < 2 || axes_.inner_stride(0) != 1 || axes_.inner_stride(1) <= 1) return;
  for (size_t axis = 0; axis + 1 < axes_.rank; ++axis)
    if (axes_.strides[1][axis] == 1) {
      axes_.move_inwards(axis, axes_.rank - 2);
      transposed_ = true;
    }
}

void Copy::run(const ThreadContext& context) const {
  run(source_.from(context), target_.to(context), context.rank, context.size);
}

void Copy::run(const float* from, float* to, size_t rank, size_t size) const {
  size_t inner = axes_.inner();
  if (transposed_) {
    size_t outer = axes_.rank - 2, side = axes_.shape[outer], blocks = divide_up(side, block_rows);
    size_t to_stride = axes_.strides[0][outer], from_stride = axes_.inner_stride(1);
    auto [begin, end] = partition(axes_.rows(outer) * blocks, rank, size);
    if (begin == end) return;
    Walk walk(axes_, outer, begin / blocks);
    for (size_t item = begin; item < end; ++item) {
      size_t row = item % blocks * block_rows;
      if (row == 0 && item > begin) walk.next();
      SKINNY_CHOOSE(strided).transpose(from + walk[1] + row, from_stride,
                                       to + walk[0] + row * to_stride, to_stride,
                                       std::min(block_rows, side - row), inner);
    }
    return;
  }
  size_t outer = axes_.rank ? axes_.rank - 1 : 0, chunks = divide_up(inner, chunk);
  size_t to_stride = axes_.inner_stride(0), from_stride = axes_.inner_stride(1);
  auto [begin, end] = partition(axes_.rows(outer) * chunks, rank, size);
  if (begin == end) return;
  Walk walk(axes_, outer, begin / chunks);
  for (size_t item = begin; item < end; ++item) {
    size_t first = item % chunks * chunk, last = std::min(first + chunk, inner);
    if (first == 0 && item > begin) walk.next();
    const float* source = from + walk[1];
    float* target = to + walk[0];
    if (to_stride == 1 && from_stride == 1)
      std::memcpy(target + first, source + first, (last - first) * sizeof(float));
    else
      for (size_t i = first; i < last; ++i) target[i * to_stride] = source[i * from_stride];
  }
}

double Copy::work() const { return static_cast<double>(target_.size()) * ns_per_float; }

Fill::Fill(const Tensor& target, float value)
    : target_(target), axes_({target}), value_(value) {}

void Fill::run(const ThreadContext& context) const {
  float* to = target_.to(context);
  size_t outer = axes_.rank ? axes_.rank - 1 : 0, inner = axes_.inner();
  size_t stride = axes_.inner_stride(0), chunks = divide_up(inner, chunk);
  auto [begin, end] = context.partition(axes_.rows(outer) * chunks);
  if (begin == end) return;
  Walk walk(axes_, outer, begin / chunks);
  for (size_t item = begin; item < end; ++item) {
    size_t first = item % chunks * chunk, last = std::min(first + chunk, inner);
    if (first == 0 && item > begin) walk.next();
    if (stride == 1)
      std::fill(to + walk[0] + first, to + walk[0] + last, value_);
    else
      for (size_t i = first; i < last; ++i) to[walk[0] + i * stride] = value_;
  }
}

double Fill::work() const { return static_cast<double>(target_.size()) * ns_per_float; }

}  // namespace skinny
