#include "pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "view.h"

namespace skinny {

void* allocate_pages(size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr size_t huge_page = size_t{1} << 21;
  if (bytes >= 2 * huge_page) {
    // Not aligned_alloc, which asks for a multiple of the alignment: the last page would be a whole
    // huge one, of which little may be used.
    void* found = nullptr;
    if (posix_memalign(&found, huge_page, bytes) != 0) throw std::bad_alloc();
    madvise(found, bytes, MADV_HUGEPAGE);  // only advice: a failure changes nothing
    return found;
  }
#endif
  constexpr size_t line = 64;
  void* found = std::aligned_alloc(line, round_up(bytes, line));
  if (!found && bytes) throw std::bad_alloc();
  return found;
}

}  // namespace skinny
