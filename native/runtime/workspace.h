// The memory of a call: taken from a pool of those of former calls, so that its pages stay mapped.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "pages.h"

namespace skinny {

constexpr size_t arena_slack = 256;  // floats a kernel may read past the last position of an arena

// Floats, zero at first, aligned to a cache line.
struct Workspace {
  explicit Workspace(size_t floats);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  const size_t size;
  float* const data;
};

// Any number of callers take workspaces at once, each its own.
class WorkspacePool {
 public:
  std::unique_ptr<Workspace> acquire(size_t floats);
  void recycle(std::unique_ptr<Workspace> workspace);

 private:
  std::mutex mutex_;  // never waited for: in a forked child it may stay locked
  std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace skinny
