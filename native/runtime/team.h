// A team of threads that work on one inference, and wait for each other between its steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace skinny {

// Where the members of a team meet: nobody leaves before everybody came. Spins for a moment, since
// steps take microseconds, then sleeps, since another process may have the other core.
class Meeting {
 public:
  explicit Meeting(size_t members) : members_(members) {}
  void wait();

 private:
  const size_t members_;
  std::atomic<size_t> arrived_{0};
  std::atomic<uint32_t> round_{0};
};

struct Member {
  size_t rank, size;
  Meeting& meeting;
};

// Calls work once for each member of a team, on as many threads, the caller's among them. The team
// has `wanted` members, or one when the process's one pool of helpers is busy with another caller:
// both then run side by side. `work` must not throw, and must be right for any size.
void with_team(size_t wanted, const std::function<void(const Member&)>& work);

}  // namespace skinny
