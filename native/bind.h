// Each part of the extension registers its functions here; native/module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace skinny {

void bind_bitmask(nanobind::module_& m);
void bind_entropy(nanobind::module_& m);
void bind_symbols(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);

}  // namespace skinny
