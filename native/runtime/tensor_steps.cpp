#include "tensor_steps.h"

#include <algorithm>
#include <cstring>

#include "require.h"
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

Reindex::Reindex(const Tensor& source, const Tensor& target,
                 const std::vector<std::vector<int32_t>>& index)
    : source_(source), target_(target) {
  require(source.rank == target.rank && index.size() == target.rank,
          "a list of entries for each axis is needed");
  for (size_t axis = 0; axis < target.rank; ++axis) {
    require(index[axis].size() == target.shape[axis], "an entry for each of the target is needed");
    Axis own{target.strides[axis], {}};
    for (int32_t entry : index[axis]) {
      require(entry >= 0 && static_cast<size_t>(entry) < source.shape[axis],
              "an entry must lie in the source");
      own.offsets.push_back(static_cast<size_t>(entry) * source.strides[axis]);
    }
    if (own.offsets.size() > 1 || index[axis][0] > 0) axes_.push_back(std::move(own));
  }
  if (axes_.empty()) axes_.push_back({1, {0}});
  std::stable_sort(axes_.begin(), axes_.end(),
                   [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  const Axis& inner = axes_.back();
  for (size_t first = 0, i = 1; inner.stride == 1 && i <= inner.offsets.size(); ++i) {
    if (i < inner.offsets.size() && inner.offsets[i] == inner.offsets[i - 1] + 1) continue;
    if (i - first > run_end_ - run_begin_) run_begin_ = first, run_end_ = i;
    first = i;
  }
}

void Reindex::run(const ThreadContext& context) const {
  const Axis& inner = axes_.back();
  size_t count = inner.offsets.size();
  auto [begin, end] = context.partition(target_.size() / count);
  for (size_t row = begin; row < end; ++row) {
    const float* from = source_.from(context);
    float* to = target_.to(context);
    size_t rest = row;
    for (size_t axis = axes_.size() - 1; axis-- > 0;) {
      const Axis& own = axes_[axis];
      size_t i = rest % own.offsets.size();
      rest /= own.offsets.size();
      from += own.offsets[i];
      to += i * own.stride;
    }
    for (size_t i = 0; i < run_begin_; ++i) to[i * inner.stride] = from[inner.offsets[i]];
    if (run_begin_ < run_end_)
      std::memcpy(to + run_begin_, from + inner.offsets[run_begin_],
                  (run_end_ - run_begin_) * sizeof(float));
    for (size_t i = run_end_; i < count; ++i) to[i * inner.stride] = from[inner.offsets[i]];
  }
}

double Reindex::work() const { return static_cast<double>(target_.size()) * 2 * ns_per_float; }

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
