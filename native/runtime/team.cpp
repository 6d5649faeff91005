#include "team.h"

#include <unistd.h>

#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace skinny {
namespace {

constexpr int spins = 2000;  // some tens of microseconds

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns when `value` is no longer `old`.
void wait_while(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

class ThreadPool {
 public:
  // False when the pool is working for another caller.
  bool run(size_t wanted, const Work& work) {
    std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    try {
      while (helpers_.size() + 1 < wanted) {
        size_t rank = helpers_.size() + 1;
        uint32_t seen = round_.load();
        helpers_.emplace_back([this, rank, seen] { help(rank, seen); });
      }
    } catch (const std::system_error&) {  // the system has no more threads: a smaller team
      wanted = helpers_.size() + 1;
    }
    Barrier barrier(wanted);
    work_ = &work;
    barrier_ = &barrier;
    size_ = wanted;
    running_.store(static_cast<uint32_t>(helpers_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    work(0, wanted, barrier);
    for (uint32_t running; (running = running_.load(std::memory_order_acquire)) != 0;)
      wait_while(running_, running);
    return true;
  }

 private:
  void help(size_t rank, uint32_t seen) {
    for (;;) {
      wait_while(round_, seen);
      ++seen;
      if (rank < size_) (*work_)(rank, size_, *barrier_);
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
    }
  }

  std::mutex busy_;
  std::vector<std::thread> helpers_;
  const Work* work_ = nullptr;
  Barrier* barrier_ = nullptr;
  size_t size_ = 0;
  std::atomic<uint32_t> round_{0}, running_{0};
};

// The process's pool. Never destroyed: its threads wait until the process ends. A forked child has
// none of these threads, and perhaps a locked mutex, so it starts a pool of its own.
ThreadPool& pool() {
  static std::mutex mutex;
  static std::atomic<ThreadPool*> current{nullptr};
  static std::atomic<pid_t> owner{0};
  if (owner.load() == getpid()) return *current.load();
  std::lock_guard lock(mutex);
  if (owner.load() != getpid()) {
    current = new ThreadPool;
    owner = getpid();
  }
  return *current.load();
}

}  // namespace

void Barrier::wait() {
  if (threads_ == 1) return;
  uint32_t round = round_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  } else {
    wait_while(round_, round);
  }
}

void with_team(size_t wanted, const Work& work) {
  if (wanted > 1 && pool().run(wanted, work)) return;
  Barrier alone(1);
  work(0, 1, alone);
}

}  // namespace skinny
