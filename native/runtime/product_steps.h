// Products of tensors that are computed by the network: matrix products and attention. The last two
// axes of a tensor are its matrices; leading axes are merged where strides allow, and a stride of
// zero broadcasts.
#pragma once

#include <optional>

#include "tensor.h"

namespace skinny {

// target[.., m, n] = scale * sum over k of a[.., m, k] b[.., k, n]
class Matmul : public Step {
 public:
  // Throws std::invalid_argument where shapes do not agree, or the columns of `b` or `target` are
  // not neighbours.
  Matmul(const Tensor& a, const Tensor& b, const Tensor& target, float scale);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  Tensor a_, b_, target_;
  Axes leading_;  // of target, a and b
  float scale_;
};

// target[.., t, e] = sum over s of softmax over s(scale q[.., t] . k[.., s] + mask[.., t, s])
// v[.., s, e], as AttentionHead in attention.h says. Strides are any; a stride of one between the
// queries of `q` and `target` is fast.
class Attention : public Step {
 public:
  struct Options {
    bool mask_selects, causal;
    float scale;
  };
  // Throws std::invalid_argument where shapes do not agree.
  Attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
            const Tensor& target, const Options& options);
  void run(const ThreadContext& context) const override;
  size_t scratch(size_t n) const override;
  double work() const override;

 private:
  Tensor q_, k_, v_, target_;
  std::optional<Tensor> mask_;
  Axes leading_;  // of target, q, k, v, and the mask
  Options options_;
};

}  // namespace skinny
