// What is made once, while others may be running the step it is for: they do without until it is
// there. Nobody waits, so that a forked child never waits for a thread that it does not have.
#pragma once

#include <atomic>
#include <memory>

namespace skinny {

template <class T>
class MadeOnce {
 public:
  MadeOnce() = default;
  ~MadeOnce() { delete get(); }
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  const T* get() const { return made_.load(std::memory_order_acquire); }
  bool begin() { return !begun_.exchange(true); }  // false if someone else has begun
  void set(std::unique_ptr<const T> made) {
    made_.store(made.release(), std::memory_order_release);
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<const T*> made_{nullptr};
};

}  // namespace skinny
