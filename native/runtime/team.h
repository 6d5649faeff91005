// A team of threads that work on one inference, and wait for each other between its steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace skinny {

// No thread leaves wait() before all threads have entered it. Spins for a moment, since steps take
// microseconds, then sleeps, since another process may have the other core.
class Barrier {
 public:
  explicit Barrier(size_t threads) : threads_(threads) {}
  void wait();

 private:
  const size_t threads_;
  std::atomic<size_t> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

// Thread `rank` of a team of `size`, whose threads share the barrier.
using Work = std::function<void(size_t rank, size_t size, Barrier& barrier)>;

// Calls work once for each thread of a team, one of which is the caller's. The team has `wanted`
// threads; or one, when the process's one pool of threads is busy with another caller: both then
// run side by side. `work` must not throw, and must be right for any size.
void with_team(size_t wanted, const Work& work);

// Seconds, for the differences between two.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace skinny
