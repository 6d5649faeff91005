// Running independent tasks on several threads. Not OpenMP: torch ships its own renamed runtime,
// and two of them in one process fight over the cores.
#pragma once

#include <cstddef>
#include <functional>

namespace skinny {

// Calls task(0) .. task(tasks - 1), one thread each (the caller's thread runs task 0), and returns
// when all have ended. `task` must not throw, and so not allocate: out of memory, a thread cannot
// even throw (glibc aborts when it cannot allocate the thread's exception state).
void in_parallel(size_t tasks, const std::function<void(size_t)>& task);

}  // namespace skinny
