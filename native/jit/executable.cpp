#include "executable.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#define SKINNY_HAS_MMAP 1
#endif

namespace skinny::jit {
namespace {

enum class State { written, executable, refused };

}  // namespace

struct CodePages {
  uint8_t* data = nullptr;
  size_t size = 0;             // mapped; of addresses alone as long as code is added
  size_t written = 0;          // of `data`, in whole huge pages
  std::vector<uint8_t> rest;   // code that is not there yet
  std::atomic<State> state{State::written};

  CodePages() = default;
  ~CodePages();
  CodePages(const CodePages&) = delete;
  CodePages& operator=(const CodePages&) = delete;
};

bool Executable::ready() const {
  return pages_->state.load(std::memory_order_acquire) == State::executable;
}
size_t Executable::bytes() const { return pages_->state == State::refused ? 0 : size_; }

std::optional<Executable> Executable::make(const std::vector<uint8_t>& code) {
  CodeWriter writer;
  std::optional<Executable> made = writer.add(code);
  writer.finish();
  return made && made->ready() ? made : std::nullopt;
}

#if defined(SKINNY_HAS_MMAP)

namespace {

// Code that is read once for a few vectors meets a new page all the time, whose address the processor
// has to look up: much code is in huge pages, where the system has some.
constexpr size_t huge_page = size_t{1} << 21;
constexpr size_t addresses = 8 * huge_page;  // of pages that are written together
constexpr size_t line = 64;
constexpr uint8_t breakpoint = 0xCC;  // after the end of code

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// `size` bytes that begin at a multiple of a huge page; null if there are none.
uint8_t* map(size_t size) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  void* found = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* begin = static_cast<uint8_t*>(found);
  size_t before = (huge_page - reinterpret_cast<uintptr_t>(begin) % huge_page) % huge_page;
  if (before) munmap(begin, before);
  munmap(begin + before + size, huge_page - before);
  return begin + before;
}

void advise_huge(uint8_t* at) {
#if defined(MADV_HUGEPAGE)
  madvise(at, huge_page, MADV_HUGEPAGE);  // only advice
#else
  (void)at;
#endif
}

}  // namespace

CodePages::~CodePages() {
  if (data) munmap(data, size);
}

std::optional<Executable> CodeWriter::add(const std::vector<uint8_t>& code) {
  if (code.empty()) return std::nullopt;
  size_t size = round_up(code.size(), line);
  if (pages_ && pages_->written + pages_->rest.size() + size > pages_->size) finish();
  if (!pages_) {
    auto fresh = std::make_shared<CodePages>();
    fresh->size = std::max(addresses, round_up(size, huge_page));
    fresh->data = map(fresh->size);
    if (!fresh->data) return std::nullopt;
    pages_ = std::move(fresh);
  }
  CodePages& pages = *pages_;
  bytes_ += code.size();
  Executable made(pages_, pages.data + pages.written + pages.rest.size(), code.size());
  for (auto at = code.begin(); at != code.end();) {
    auto room = static_cast<ptrdiff_t>(huge_page - pages.rest.size());
    auto end = at + std::min(room, code.end() - at);
    pages.rest.insert(pages.rest.end(), at, end);
    at = end;
    if (at == code.end()) pages.rest.resize(round_up(pages.rest.size(), line), breakpoint);
    if (pages.rest.size() < huge_page) continue;
    advise_huge(pages.data + pages.written);
    std::memcpy(pages.data + pages.written, pages.rest.data(), huge_page);
    pages.written += huge_page;
    pages.rest.clear();
  }
  return made;
}

// The last pages are small ones, unless they would fill most of a huge one.
void CodeWriter::finish() {
  if (!pages_) return;
  std::shared_ptr<CodePages> pages = std::move(pages_);
  bool huge = pages->rest.size() > huge_page / 2;
  long page = sysconf(_SC_PAGESIZE);
  size_t unit = huge || page <= 0 ? huge_page : static_cast<size_t>(page);
  uint8_t* at = pages->data + pages->written;
  size_t last = round_up(pages->rest.size(), unit), used = pages->written + last;
  if (used < pages->size) munmap(pages->data + used, pages->size - used);
  pages->size = used;
  if (huge) advise_huge(at);
  std::memset(at, breakpoint, last);
  std::copy(pages->rest.begin(), pages->rest.end(), at);
  pages->rest = std::vector<uint8_t>();  // and not {}, which keeps the memory
  if (mprotect(pages->data, used, PROT_READ | PROT_EXEC) == 0) {
    pages->state.store(State::executable, std::memory_order_release);
    return;
  }
  munmap(pages->data, used);
  pages->data = nullptr;
  pages->state.store(State::refused, std::memory_order_release);
}

#else

CodePages::~CodePages() = default;
std::optional<Executable> CodeWriter::add(const std::vector<uint8_t>&) { return std::nullopt; }
void CodeWriter::finish() {}

#endif

}  // namespace skinny::jit
