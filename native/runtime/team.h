// Threads that do the tasks of one inference together, one task after the other.
#pragma once

#include <chrono>
#include <cstddef>

namespace skinny {

constexpr size_t max_threads = 1024;

class ThreadPool;

// A task is divided into ranks. The caller of run() does rank 0, and then every rank that no other
// thread has begun: where the system lets a thread wait, because other processes want the cores,
// nobody waits for that thread.
class Team {
 public:
  // A team of `wanted` threads (at most max_threads), one of which is the caller's; or of one, when
  // the process's one pool of threads works for another caller: both then run side by side.
  explicit Team(size_t wanted);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  size_t size() const { return size_; }

  // task(rank) for every rank below `ranks`, which is at most size(); returns when all are done.
  // `task` must not throw.
  template <class Task>
  void run(size_t ranks, const Task& task) {
    if (ranks > 1)
      run(ranks, &task, [](const void* of, size_t rank) { (*static_cast<const Task*>(of))(rank); });
    else
      task(size_t{0});
  }

 private:
  void run(size_t ranks, const void* task, void (*call)(const void* task, size_t rank));

  ThreadPool* pool_ = nullptr;  // locked for this team; null for a team of one
  size_t size_ = 1;
};

// Seconds, for the differences between two.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace skinny
