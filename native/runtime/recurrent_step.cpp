#include "recurrent_step.h"

#include <cstring>

#include "recurrent.h"
#include "require.h"

namespace skinny {
namespace {

void check_vectors(const Tensor& tensor, size_t rank, size_t batch, size_t size) {
  require(tensor.rank == rank && tensor.shape[rank - 2] == batch &&
              tensor.shape[rank - 1] == size,
          "the sizes of a recurrent layer must agree");
  require(tensor.strides[rank - 1] == 1 || size == 1,
          "the entries of a recurrent layer's vectors must be neighbours");
}

}  // namespace

Recurrent::Recurrent(const Tensor& projected, const State& h, const std::optional<State>& c,
                     const Tensor& target, std::shared_ptr<const LinearWeights> weights,
                     std::vector<float> bias, bool reverse)
    : projected_(projected),
      target_(target),
      h_(h),
      c_(c),
      weights_(std::move(weights)),
      bias_(std::move(bias)),
      reverse_(reverse) {
  size_t size = weights_->cols(), gates = c ? 4 : 3;
  require(projected.rank == 3 && weights_->rows() == gates * size &&
              bias_.size() == weights_->rows(),
          "the sizes of a recurrent layer must agree");
  size_t batch = projected.shape[1];
  check_vectors(projected, 3, batch, gates * size);
  check_vectors(target, 3, batch, size);
  require(target.shape[0] == projected.shape[0], "the sizes of a recurrent layer must agree");
  for (const Tensor& state : {h.first, h.last}) check_vectors(state, 2, batch, size);
  if (c)
    for (const Tensor& state : {c->first, c->last}) check_vectors(state, 2, batch, size);
}

void Recurrent::run(const ThreadContext& context) const {
  auto [begin, end] = context.partition(projected_.shape[1]);
  for (size_t sample = begin; sample < end; ++sample) run_sample(context, sample);
}

void Recurrent::run_sample(const ThreadContext& context, size_t sample) const {
  const RecurrentKernels& kernels = SKINNY_CHOOSE(recurrent);
  size_t size = weights_->cols(), bytes = size * sizeof(float), length = projected_.shape[0];
  float *h = context.scratch, *c = h + weights_->readable_columns(), *gates = c + size;
  auto begin = [&](const State& state, float* to) {
    std::memcpy(to, state.first.from(context) + sample * state.first.strides[0], bytes);
  };
  auto finish = [&](const State& state, const float* from) {
    std::memcpy(state.last.to(context) + sample * state.last.strides[0], from, bytes);
  };
  std::memset(h, 0, weights_->readable_columns() * sizeof(float));
  begin(h_, h);
  if (c_) begin(*c_, c);
  for (size_t i = 0; i < length; ++i) {
    size_t t = reverse_ ? length - 1 - i : i;
    const float* x = projected_.from(context) + t * projected_.strides[0] +
                     sample * projected_.strides[1];
    weights_->run(0, weights_->rows(), h, 1, bias_.data(), gates);
    if (c_)
      kernels.lstm(x, gates, size, h, c);
    else
      kernels.gru(x, gates, size, h);
    std::memcpy(target_.to(context) + t * target_.strides[0] + sample * target_.strides[1], h,
                bytes);
  }
  finish(h_, h);
  if (c_) finish(*c_, c);
}

size_t Recurrent::scratch(size_t) const {
  return weights_->readable_columns() + weights_->cols() + weights_->rows();
}

double Recurrent::work() const {
  auto time_steps = static_cast<double>(projected_.shape[0] * projected_.shape[1]);
  return time_steps * ns_per_float *
         (weights_->work() + 8 * static_cast<double>(weights_->rows()));
}

}  // namespace skinny
