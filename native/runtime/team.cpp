#include "team.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
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

// How long a thread spins before it sleeps. To wake a thread takes up to some 50 microseconds on
// virtual machines, so spinning for about twice as long never costs much more than sleeping would.
// Shorter spins had threads fall asleep in turns, each while the other woke up. A longer one would
// keep other processes from the core.
constexpr microseconds spin_for_others{100};
constexpr microseconds spin_for_a_task{200};

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

// The processor that the calling thread runs on; -1 where the system does not tell.
int current_cpu() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// A set of processors: at first those that the calling thread may run on.
class CpuSet {
 public:
#if defined(__linux__)
  CpuSet() {
    if (sched_getaffinity(0, sizeof set_, &set_)) CPU_ZERO(&set_);
  }
  bool remove(int cpu) {  // whether it was in the set
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<size_t>(cpu), &set_)) return false;
    CPU_CLR(static_cast<size_t>(cpu), &set_);
    return true;
  }
  void bind(std::thread& thread) const {
    if (CPU_COUNT(&set_))
      (void)pthread_setaffinity_np(thread.native_handle(), sizeof set_, &set_);
  }

 private:
  cpu_set_t set_;
#else
  bool remove(int) { return true; }
  void bind(std::thread&) const {}
#endif
};

}  // namespace

// Tasks are numbered. claimed_[rank] is the number of the last task whose rank has been begun: who
// changes it from the number before to the current one does that rank. All ranks of a task are done
// before the next one is published, so that a thread which wakes too late finds them claimed.
class ThreadPool {
 public:
  ThreadPool() {
    for (auto& cpu : cpu_) cpu.store(-1, std::memory_order_relaxed);
  }

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
    size_t size = wanted < helpers_.size() + 1 ? wanted : helpers_.size() + 1;
    separate(size);
    return size;
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
  // Linux often wakes a thread on the processor of the thread that wakes it, and leaves both there as
  // long as each sleeps often: they take turns on one processor while another is idle. So helpers
  // found on the processor of another thread of the team are bound to those that have none.
  void separate(size_t size) {
    CpuSet free = allowed_;
    free.remove(current_cpu());
    CpuSet first = free;  // of each processor, the first helper may stay there
    for (size_t rank = 1; rank < size; ++rank)
      free.remove(cpu_[rank].load(std::memory_order_relaxed));
    for (size_t rank = 1; rank < size; ++rank) {
      int cpu = cpu_[rank].load(std::memory_order_relaxed);
      if (cpu < 0 || first.remove(cpu)) continue;
      free.bind(helpers_[rank - 1]);
      cpu_[rank].store(-1, std::memory_order_relaxed);  // until it runs there
    }
  }

  bool claim(size_t rank, uint32_t number) {
    uint32_t before = number - 1;
    if (claimed_[rank].load(std::memory_order_relaxed) != before) return false;
    return claimed_[rank].compare_exchange_strong(before, number, std::memory_order_acq_rel);
  }

  void help(size_t rank, uint32_t seen) {
    for (;;) {
      wait_while(number_, seen, spin_for_a_task);
      seen = number_.load(std::memory_order_acquire);
      cpu_[rank].store(current_cpu(), std::memory_order_relaxed);
      if (!claim(rank, seen)) continue;
      call_(task_, rank);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
    }
  }

  // What a task is published, claimed and ended by comes first and together: a small team then
  // exchanges one cache line, and a line takes up to half a microsecond from core to core.
  alignas(64) std::atomic<uint32_t> number_{0}, left_{0};
  const void* task_ = nullptr;
  void (*call_)(const void*, size_t) = nullptr;
  std::array<std::atomic<uint32_t>, max_threads> claimed_{};
  std::array<std::atomic<int>, max_threads> cpu_;  // that each helper ran on last; -1: not known
  const CpuSet allowed_;
  std::mutex busy_;
  std::vector<std::thread> helpers_;
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
