#include "pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace skinny {
namespace {

constexpr size_t line = 64, huge_page = size_t{1} << 21;

}  // namespace

void* allocate_pages(size_t bytes) {
  bool huge = false;
#if defined(MADV_HUGEPAGE)
  huge = bytes >= 2 * huge_page;
#endif
  bytes = round_up(bytes, line);
  void* found = std::aligned_alloc(huge ? huge_page : line, bytes);
  if (!found && bytes) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (huge) madvise(found, bytes, MADV_HUGEPAGE);  // only advice: a failure changes nothing
#endif
  return found;
}

}  // namespace skinny
