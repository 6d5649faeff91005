#include "threads.h"

#include <system_error>
#include <thread>
#include <vector>

namespace skinny {

void in_parallel(size_t parts, const std::function<void(size_t)>& part) {
  if (parts == 0) return;
  std::vector<std::thread> helpers;
  helpers.reserve(parts - 1);
  size_t started = 1;
  try {
    for (; started < parts; ++started) helpers.emplace_back(part, started);
  } catch (const std::system_error&) {  // no more threads to be had: the caller does the rest
  }
  part(0);
  for (size_t rest = started; rest < parts; ++rest) part(rest);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace skinny
