#pragma once

#include <nanobind/nanobind.h>

#include "program.h"

namespace skinny {

// Adds Engine.begin and Engine.add_* to the binding of Engine.
void bind_steps(nanobind::class_<Engine>& engine);

}  // namespace skinny
