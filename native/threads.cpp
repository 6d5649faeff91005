#include "threads.h"

#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace skinny {

void in_parallel(size_t tasks, const std::function<void(size_t)>& task) {
  if (tasks == 0) return;
  std::vector<std::thread> helpers;
  helpers.reserve(tasks - 1);
  size_t started = 1;
  try {
    for (; started < tasks; ++started) helpers.emplace_back(std::cref(task), started);
  } catch (const std::system_error&) {  // no more threads: the caller runs the remaining tasks
  } catch (const std::bad_alloc&) {
  }
  task(0);
  for (size_t index = started; index < tasks; ++index) task(index);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace skinny
