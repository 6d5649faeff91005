#include <nanobind/stl/optional.h>

#include "bind_tensors.h"
#include "product_steps.h"

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

}  // namespace

void bind_tensor_products(TensorBinding& program) {
  using nb::arg;
  program
      .def("add_matmul", &add_matmul, nb::kw_only(), arg("a"), arg("b"), arg("target"),
           arg("scale") = 1.f)
      .def("add_attention", &add_attention, nb::kw_only(), arg("q"), arg("k"), arg("v"),
           arg("mask").none(), arg("mask_is_bool"), arg("causal"), arg("scale"), arg("target"));
}

}  // namespace skinny
