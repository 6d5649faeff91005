#include "team.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace skinny {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// How long a thread spins before it sleeps. Tasks follow each other within microseconds, and waking
// a sleeping thread takes longer than that. But where another process has the other core, a
// spinning thread keeps the thread it waits for from running.
constexpr microseconds spin_for_others{10};
constexpr microseconds spin_for_a_task{50};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // waits some cycles; ARM's own hint, yield, mostly waits none
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

}  // namespace

// Tasks are numbered. claimed_[rank] is the number of the last task whose rank has been begun: who
// changes it from the number before to the current one does that rank. All ranks of a task are done
// before the next one is published, so that a thread which wakes too late finds them claimed.
class ThreadPool {
 public:
  // Locks the pool for a team of `wanted` threads. Returns how many it has; 0 when it works for
  // another caller.
  size_t acquire(size_t wanted) {
    if (!busy_.try_lock()) return 0;
    try {
      while (helpers_.size() + 1 < wanted) {
        size_t rank = helpers_.size() + 1;
        uint32_t seen = number_.load();
        helpers_.emplace_back([this, rank, seen] { help(rank, seen); });
      }
    } catch (const std::system_error&) {  // the system has no more threads: a smaller team
    } catch (const std::bad_alloc&) {
    }
    return wanted < helpers_.size() + 1 ? wanted : helpers_.size() + 1;
  }
  void release() { busy_.unlock(); }

  void run(size_t ranks, const void* task, void (*call)(const void*, size_t)) {
    uint32_t number = number_.load(std::memory_order_relaxed) + 1;
    for (size_t rank = 1; rank <= helpers_.size(); ++rank)
      claimed_[rank].store(rank < ranks ? number - 1 : number, std::memory_order_relaxed);
    task_ = task;
    call_ = call;
    left_.store(static_cast<uint32_t>(ranks), std::memory_order_relaxed);
    number_.store(number, std::memory_order_release);
    number_.notify_all();
    call(task, 0);
    uint32_t done = 1;
    for (size_t rank = 1; rank < ranks; ++rank)
      if (claim(rank, number)) {
        call(task, rank);
        ++done;
      }
    uint32_t left = left_.fetch_sub(done, std::memory_order_acq_rel) - done;
    for (; left; left = left_.load(std::memory_order_acquire))
      wait_while(left_, left, spin_for_others);
  }

 private:
  bool claim(size_t rank, uint32_t number) {
    uint32_t before = number - 1;
    return claimed_[rank].compare_exchange_strong(before, number, std::memory_order_acq_rel);
  }

  void help(size_t rank, uint32_t seen) {
    for (;;) {
      wait_while(number_, seen, spin_for_a_task);
      seen = number_.load(std::memory_order_acquire);
      if (!claim(rank, seen)) continue;
      call_(task_, rank);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }

  std::mutex busy_;
  std::vector<std::thread> helpers_;
  const void* task_ = nullptr;
  void (*call_)(const void*, size_t) = nullptr;
  std::array<std::atomic<uint32_t>, max_threads> claimed_{};
  std::atomic<uint32_t> number_{0}, left_{0};
};

namespace {

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

Team::Team(size_t wanted) {
  if (wanted < 2) return;
  ThreadPool& found = pool();
  size_t size = found.acquire(wanted < max_threads ? wanted : max_threads);
  if (size) pool_ = &found, size_ = size;
}

Team::~Team() {
  if (pool_) pool_->release();
}

void Team::run(size_t ranks, const void* task, void (*call)(const void* task, size_t rank)) {
  pool_->run(ranks, task, call);
}

}  // namespace skinny
