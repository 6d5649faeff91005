// What the coders share: arguments checked, blocks handed to threads, the state's range.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "threads.h"

namespace skinny {

template <class T>
using Array = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

inline void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

constexpr size_t block_size = size_t(1) << 14;  // symbols (for masks: bytes) coded together
constexpr unsigned slot_bits = 14;
constexpr uint32_t slots = 1u << slot_bits;

inline size_t block_count(size_t symbols) { return (symbols + block_size - 1) / block_size; }

// Runs job(begin, end) for every `together` neighbouring blocks, on up to `threads` threads.
template <class Job>
void for_blocks(size_t blocks, size_t together, size_t threads, Job job) {
  size_t groups = (blocks + together - 1) / together;
  std::atomic<size_t> next{0};
  in_parallel(std::clamp<size_t>(groups, 1, std::max<size_t>(threads, 1)), [&](size_t) {
    for (size_t group; (group = next++) < groups;)
      job(group * together, std::min(blocks, (group + 1) * together));
  });
}

}  // namespace skinny
