#include "team.h"

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace skinny {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// How long a thread spins before it sleeps. Threads reach a barrier a few microseconds apart, and
// waking a sleeping thread takes longer than that. But where another process has the other core, a
// spinning thread keeps the thread it waits for from running. Between calls there is no such thread,
// and calls from Python are farther apart.
constexpr microseconds spin_at_barrier{10};
constexpr microseconds spin_between_calls{50};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns when `value` is no longer `old`; the thread that changes it last must call notify.
void wait_while(const std::atomic<uint32_t>& value, uint32_t old, microseconds spin) {
  auto changed = [&] { return value.load(std::memory_order_acquire) != old; };
  if (changed()) return;
  auto stop = steady_clock::now() + spin;
  do {
    for (int i = 0; i < 8; ++i) {  // a pause takes up to 150 cycles, reading the clock about 50
      pause();
      if (changed()) return;
    }
  } while (steady_clock::now() < stop);
  while (!changed()) value.wait(old, std::memory_order_acquire);
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
    } catch (const std::bad_alloc&) {
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
      wait_while(running_, running, spin_at_barrier);
    return true;
  }

 private:
  void help(size_t rank, uint32_t seen) {
    for (;;) {
      wait_while(round_, seen, spin_between_calls);
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
  struct Owned {
    pid_t owner = getpid();
    ThreadPool pool;
  };
  static std::atomic<Owned*> current{nullptr};  // no mutex: a fork could leave it locked
  Owned* found = current.load(std::memory_order_acquire);
  if (found && found->owner == getpid()) return found->pool;
  auto* fresh = new Owned;
  if (current.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) return fresh->pool;
  delete fresh;  // another thread was first; it has no threads yet
  return found->pool;
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
    wait_while(round_, round, spin_at_barrier);
  }
}

void with_team(size_t wanted, const Work& work) {
  if (wanted > 1 && pool().run(wanted, work)) return;
  Barrier alone(1);
  work(0, 1, alone);
}

}  // namespace skinny
