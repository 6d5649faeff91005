// Running parts of a job on several threads. Not OpenMP: torch ships its own renamed runtime, and
// two of them in one process fight over the cores.
#pragma once

#include <cstddef>
#include <functional>

namespace skinny {

// Calls part(0) .. part(parts - 1), one thread each (the caller's thread takes part 0), and returns
// when all are done. `part` must not throw.
void in_parallel(size_t parts, const std::function<void(size_t)>& part);

}  // namespace skinny
