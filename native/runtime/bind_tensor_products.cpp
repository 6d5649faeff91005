#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "bind_tensors.h"
#include "product_steps.h"
#include "recurrent_step.h"

namespace nb = nanobind;

namespace skinny {
namespace {

void add_matmul(TensorProgram& p, const Tensor& a, const Tensor& b, const Tensor& target,
                float scale) {
  Tensor left = p.source(a), right = p.source(b), to = p.target(target);
  check_apart(left, to);
  check_apart(right, to);
  p.add(Matmul(left, right, to, scale));
}

void add_attention(TensorProgram& p, const Tensor& q, const Tensor& k, const Tensor& v,
                   const std::optional<Tensor>& mask, bool mask_is_bool, bool causal, float scale,
                   const Tensor& target) {
  Tensor queries = p.source(q), keys = p.source(k), values = p.source(v), to = p.target(target);
  std::optional<Tensor> masking;
  if (mask) {
    masking = p.source(*mask);
    check_apart(*masking, to);
  }
  for (const Tensor& source : {queries, keys, values}) check_apart(source, to);
  p.add(Attention(queries, keys, values, masking, to, {mask_is_bool, causal, scale}));
}

void add_recurrent(TensorProgram& p, const Tensor& projected, const Tensor& h,
                   const std::optional<Tensor>& c, const Tensor& target, const Tensor& last_h,
                   const std::optional<Tensor>& last_c, std::shared_ptr<LinearWeights> weights,
                   const Floats& bias, bool reverse) {
  require(c.has_value() == last_c.has_value(), "an LSTM has a first and a last cell state");
  std::vector<Tensor> sources{p.source(projected), p.source(h)};
  std::vector<Tensor> targets{p.target(target), p.target(last_h)};
  std::optional<Recurrent::State> cells;
  if (c) {
    cells = {p.source(*c), p.target(*last_c)};
    sources.push_back(cells->first);
    targets.push_back(cells->last);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    for (const Tensor& source : sources) check_apart(source, targets[i]);
    for (size_t j = 0; j < i; ++j) check_apart(targets[j], targets[i]);
  }
  p.add(Recurrent(sources[0], {sources[1], targets[1]}, cells, targets[0], std::move(weights),
                  copy(bias), reverse));
}

}  // namespace

void bind_tensor_products(TensorBinding& program) {
  using nb::arg;
  program
      .def("add_matmul", &add_matmul, nb::kw_only(), arg("a"), arg("b"), arg("target"),
           arg("scale") = 1.f)
      .def("add_attention", &add_attention, nb::kw_only(), arg("q"), arg("k"), arg("v"),
           arg("mask").none(), arg("mask_is_bool"), arg("causal"), arg("scale"), arg("target"))
      .def("add_recurrent", &add_recurrent, nb::kw_only(), arg("projected"), arg("h"),
           arg("c").none(), arg("target"), arg("last_h"), arg("last_c").none(), arg("weights"),
           arg("bias"), arg("reverse"));
}

}  // namespace skinny
