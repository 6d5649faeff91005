#include "axis_steps.h"

#include <algorithm>
#include <cstring>

namespace skinny {

AlongAxis::AlongAxis(const Tensor& source, const Tensor& target)
    : source_(source), target_(target), to_inner_stride_(target.strides[target.rank - 1]) {
  size_t inner = source.shape[2];
  bool reduces = target.rank == 2;
  bool neighbours = source.strides[2] == 1 && to_inner_stride_ == 1;
  bool contiguous = axis() == 1 || (from_stride() == 1 && (reduces || to_stride() == 1));
  rows_ = contiguous && (inner == 1 || !neighbours);
  columns_ = !rows_ && neighbours;
}

void AlongAxis::run(const ThreadContext& context) const {
  size_t outer = source_.shape[0], inner = source_.shape[2];
  auto width = static_cast<size_t>(SKINNY_CHOOSE(axis).column_floats);
  if (!columns_) width = 1;
  size_t across = (inner + width - 1) / width;
  auto [begin, end] = context.partition(outer * across);
  const float* source = source_.from(context);
  float* target = target_.to(context);
  for (size_t item = begin; item < end; ++item) {
    size_t at = item / across, first = item % across * width;
    const float* from = source + at * source_.strides[0] + first * source_.strides[2];
    float* to = target + at * target_.strides[0] + first * to_inner_stride_;
    if (rows_)
      run_row(from, to);
    else
      run_columns({from, to, std::min(width, inner - first)});
  }
}

Norm::Norm(const Tensor& source, const Tensor& target, std::vector<float> weight,
           std::vector<float> bias, float eps, bool subtract_mean)
    : AlongAxis(source, target),
      weight_(std::move(weight)),
      bias_(std::move(bias)),
      eps_(eps),
      subtract_mean_(subtract_mean) {}

Normalisation Norm::norm() const {
  return {weight_.empty() ? nullptr : weight_.data(), bias_.empty() ? nullptr : bias_.data(), eps_,
          subtract_mean_};
}

void Norm::run_columns(const Columns& columns) const {
  SKINNY_CHOOSE(axis)
      .norm_columns(columns.from, from_stride(), columns.to, to_stride(), axis(), columns.inner,
                    norm());
}

void Norm::run_row(const float* from, float* to) const {
  SKINNY_CHOOSE(axis).norm_row(from, to, axis(), norm());
}

TensorSoftmax::TensorSoftmax(const Tensor& source, const Tensor& target, bool log)
    : AlongAxis(source, target), log_(log) {}

void TensorSoftmax::run_columns(const Columns& columns) const {
  SKINNY_CHOOSE(axis)
      .softmax_columns(columns.from, from_stride(), columns.to, to_stride(), axis(), columns.inner,
                       log_);
}

void TensorSoftmax::run_row(const float* from, float* to) const {
  SKINNY_CHOOSE(axis).softmax_row(from, to, axis(), log_);
}

Reduce::Reduce(ReduceKind kind, const Tensor& source, const Tensor& target)
    : AlongAxis(source, target), kind_(kind) {}

void Reduce::run_columns(const Columns& columns) const {
  SKINNY_CHOOSE(axis)
      .reduce_columns(kind_, columns.from, from_stride(), axis(), columns.inner, columns.to);
}

void Reduce::run_row(const float* from, float* to) const {
  *to = SKINNY_CHOOSE(axis).reduce_row(kind_, from, axis());
}

namespace {

// Without its last axis.
Tensor leading(Tensor tensor) {
  tensor.shape[--tensor.rank] = 0;
  tensor.strides[tensor.rank] = 0;
  return tensor;
}

}  // namespace

Gather::Gather(const Tensor& table, const Tensor& index, const Tensor& target)
    : table_(table), index_(index), target_(target), axes_({leading(target), index}) {}

Gather::Gather(std::shared_ptr<const Int8Table> table, const Tensor& index, const Tensor& target)
    : index_(index),
      target_(target),
      integers_(std::move(table)),
      axes_({leading(target), index}) {}

void Gather::run(const ThreadContext& context) const {
  constexpr size_t most = 16;  // rows at a time, so that what they write to lies in cache lines
  const float* table = integers_ ? nullptr : table_.from(context);
  const float* indices = index_.from(context);
  size_t known = integers_ ? integers_->rows() : table_.shape[0];
  float* target = target_.to(context);
  auto [begin, end] = context.partition(axes_.rows(axes_.rank));
  if (begin == end) return;
  Walk walk(axes_, axes_.rank, begin);
  for (size_t position = begin; position < end; position += most) {
    size_t rows[most];
    float* to[most];
    size_t count = std::min(most, end - position);
    for (size_t i = 0; i < count; ++i, walk.next()) {
      int32_t row;
      std::memcpy(&row, indices + walk[1], sizeof row);
      if (row < 0 || static_cast<size_t>(row) >= known) {
        context.mistake->tell(row, known);
        row = 0;
      }
      rows[i] = static_cast<size_t>(row);
      to[i] = target + walk[0];
    }
    if (integers_)
      scale(rows, to, count);
    else
      copy(table, rows, to, count);
  }
}

void Gather::copy(const float* table, const size_t* rows, float* const* to, size_t count) const {
  size_t features = table_.shape[1], stride = table_.strides[1];
  size_t to_stride = target_.strides[target_.rank - 1];
  auto from = [&](size_t i) { return table + rows[i] * table_.strides[0]; };
  if (stride == 1 && to_stride == 1)
    for (size_t i = 0; i < count; ++i) std::memcpy(to[i], from(i), features * sizeof(float));
  else
    for (size_t f = 0; f < features; ++f)
      for (size_t i = 0; i < count; ++i) to[i][f * to_stride] = from(i)[f * stride];
}

void Gather::scale(const size_t* rows, float* const* to, size_t count) const {
  size_t features = integers_->columns(), to_stride = target_.strides[target_.rank - 1];
  auto write = [&](size_t i, size_t f) {
    float integer = integers_->row(rows[i])[f];
    to[i][f * to_stride] = integer * integers_->scale(rows[i]);
  };
  if (to_stride == 1)
    for (size_t i = 0; i < count; ++i)
      for (size_t f = 0; f < features; ++f) write(i, f);
  else
    for (size_t f = 0; f < features; ++f)
      for (size_t i = 0; i < count; ++i) write(i, f);
}

double Gather::work() const { return static_cast<double>(target_.size()) * 2 * ns_per_float; }

}  // namespace skinny
