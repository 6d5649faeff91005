// One function per file of bindings, each of which native/module.cpp calls.
#pragma once

#include <nanobind/nanobind.h>

namespace skinny {

void bind_bitmask(nanobind::module_& m);
void bind_entropy(nanobind::module_& m);
void bind_adaptive(nanobind::module_& m);
void bind_symbols(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);
void bind_jit(nanobind::module_& m);
void bind_tensors(nanobind::module_& m);

}  // namespace skinny
