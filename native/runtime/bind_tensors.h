// What the bindings of a tensor program share: each file of them adds steps of one kind.
#pragma once

#include <nanobind/nanobind.h>

#include "arguments.h"
#include "tensor_program.h"

namespace skinny {

using TensorBinding = nanobind::class_<TensorProgram>;

void bind_tensor_axes(nanobind::module_& m, TensorBinding& program);
void bind_tensor_images(TensorBinding& program);
void bind_tensor_maps(nanobind::module_& m, TensorBinding& program);
void bind_tensor_products(TensorBinding& program);
void bind_int8(TensorBinding& program);
void bind_int8_weights(nanobind::module_& m);

// That an output is not an input, unless it has the same elements in the same order and the step
// reads each before it writes it (`in_place`).
inline void check_apart(const Tensor& source, const Tensor& target, bool in_place = false) {
  require(apart(source, target) || (in_place && source.same(target)),
          "a step must not write what it reads");
}

inline void check_same_shape(const Tensor& source, const Tensor& target) {
  require(source.rank == target.rank && source.shape == target.shape,
          "an input and an output must have the same shape");
}

}  // namespace skinny
