// Memory in huge pages, where the system has some.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace skinny {

// Aligned to a cache line; of 4 MB and more, in huge pages. std::free frees it.
void* allocate_pages(size_t bytes);

// For vectors of weights that are read once in a call: finding the address of each page of 4 kB takes
// a good part of the time of reading it.
template <class T>
struct InPages {
  using value_type = T;
  InPages() = default;
  template <class U>
  InPages(const InPages<U>&) {}

  T* allocate(size_t count) {
    if (count > size_t(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_pages(count * sizeof(T)));
  }
  void deallocate(T* pages, size_t) { std::free(pages); }
  bool operator==(const InPages&) const { return true; }
};

}  // namespace skinny
