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

namespace {

// Code that is read once for a few vectors meets a new page all the time, whose address the processor
// has to look up: much code is in huge pages, where the system has some.
constexpr size_t huge_page = size_t{1} << 21;

// `size` bytes that begin at a multiple of `unit`, both multiples of a page; null if there are none.
uint8_t* map(size_t size, size_t unit) {
  void* found =
      mmap(nullptr, size + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* begin = static_cast<uint8_t*>(found);
  size_t before = (unit - reinterpret_cast<uintptr_t>(begin) % unit) % unit;
  if (before) munmap(begin, before);
  munmap(begin + before + size, unit - before);
  return begin + before;
}

}  // namespace

std::optional<Executable> Executable::make(const std::vector<uint8_t>& code) {
  long page = sysconf(_SC_PAGESIZE);
  if (code.empty() || page <= 0) return std::nullopt;
  size_t unit = code.size() > huge_page / 2 ? huge_page : static_cast<size_t>(page);
  size_t size = (code.size() + unit - 1) / unit * unit;
  uint8_t* at = map(size, unit);
  if (!at) return std::nullopt;
#if defined(MADV_HUGEPAGE)
  if (unit == huge_page) madvise(at, size, MADV_HUGEPAGE);  // only advice
#endif
  Executable made(at, size);
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
