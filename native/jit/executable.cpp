#include "executable.h"

#include <cstring>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#define SKINNY_HAS_MMAP 1
#endif

namespace skinny::jit {

#if defined(SKINNY_HAS_MMAP)

std::optional<Executable> Executable::make(const std::vector<uint8_t>& code) {
  long page = sysconf(_SC_PAGESIZE);
  if (code.empty() || page <= 0) return std::nullopt;
  auto unit = static_cast<size_t>(page);
  size_t size = (code.size() + unit - 1) / unit * unit;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return std::nullopt;
  Executable made(static_cast<uint8_t*>(at), size);
  std::memset(at, 0xCC, size);  // a breakpoint after the end
  std::memcpy(at, code.data(), code.size());
  if (mprotect(at, size, PROT_READ | PROT_EXEC) != 0) return std::nullopt;
  return made;
}

Executable::~Executable() {
  if (data_) munmap(data_, size_);
}

#else

std::optional<Executable> Executable::make(const std::vector<uint8_t>&) { return std::nullopt; }
Executable::~Executable() = default;

#endif

Executable::Executable(Executable&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Executable& Executable::operator=(Executable&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace skinny::jit
