#include "workspace.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace skinny {
namespace {

constexpr size_t line = 64, huge_page = size_t{1} << 21;

// A tile touches a page of each channel, more pages than the processor keeps addresses of: a large
// workspace is in huge pages, where the system has some.
float* allocate(size_t bytes) {
#if defined(MADV_HUGEPAGE)
  if (bytes >= 2 * huge_page) {
    bytes = round_up(bytes, huge_page);
    void* found = std::aligned_alloc(huge_page, bytes);
    if (found) madvise(found, bytes, MADV_HUGEPAGE);  // only advice: a failure changes nothing
    return static_cast<float*>(found);
  }
#endif
  return static_cast<float*>(std::aligned_alloc(line, round_up(bytes, line)));
}

}  // namespace

Workspace::Workspace(size_t floats) : size(floats), data(allocate(floats * sizeof(float))) {
  if (!data) throw std::bad_alloc();
  std::memset(data, 0, floats * sizeof(float));
}

Workspace::~Workspace() { std::free(data); }

std::unique_ptr<Workspace> WorkspacePool::acquire(size_t floats) {
  std::unique_ptr<Workspace> found;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return std::make_unique<Workspace>(floats);
    auto fits = std::find_if(idle_.begin(), idle_.end(),
                             [&](const auto& workspace) { return workspace->size >= floats; });
    if (fits != idle_.end()) {
      found = std::move(*fits);
      idle_.erase(fits);
    } else {
      idle_.clear();  // too small from now on
    }
  }
  return found ? std::move(found) : std::make_unique<Workspace>(floats);
}

void WorkspacePool::recycle(std::unique_ptr<Workspace> workspace) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) idle_.push_back(std::move(workspace));
}

}  // namespace skinny
