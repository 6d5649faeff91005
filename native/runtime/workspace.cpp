#include "workspace.h"

#include <algorithm>
#include <cstring>

namespace skinny {

// A tile touches a page of each channel, more pages than the processor keeps addresses of: hence huge
// ones.
Workspace::Workspace(size_t floats)
    : size(floats), data(static_cast<float*>(allocate_pages(floats * sizeof(float)))) {
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
