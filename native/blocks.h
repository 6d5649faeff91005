// What the two rANS coders share: argument checks, blocks and threads, the range of a state.
#pragma once

#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "require.h"
#include "threads.h"

namespace skinny {

template <class T>
using Array = nanobind::ndarray<T, nanobind::c_contig, nanobind::device::cpu>;

constexpr size_t block_size = size_t(1) << 14;  // symbols (for masks: bytes) of a block
constexpr unsigned slot_bits = 14;
constexpr uint32_t slots = 1u << slot_bits;

inline size_t block_count(size_t symbols) { return (symbols + block_size - 1) / block_size; }

// Calls job(begin, end) for each group of `group_size` neighbouring blocks, on up to `threads`
// threads. A job must not throw.
template <class Job>
void for_blocks(size_t blocks, size_t group_size, size_t threads, Job job) {
  size_t groups = (blocks + group_size - 1) / group_size;
  std::atomic<size_t> next{0};
  in_parallel(std::clamp<size_t>(groups, 1, std::max<size_t>(threads, 1)), [&](size_t) {
    for (size_t group; (group = next++) < groups;)
      job(group * group_size, std::min(blocks, (group + 1) * group_size));
  });
}

// Room for the words of all blocks, since encoders must not allocate in their threads. A symbol adds
// at most one word. rANS encodes backwards, so a block's words are written from its end.
class WordBuffer {
 public:
  explicit WordBuffer(size_t symbols) : symbols_(symbols), words_(new uint32_t[symbols]) {}

  uint32_t* end(size_t block) { return words_.get() + block_end(block); }

  // The words of all blocks, one block after the other.
  nanobind::bytes join(const Array<uint16_t>& word_counts) const {
    size_t total = 0;
    for (size_t i = 0; i < word_counts.size(); ++i) total += word_counts.data()[i];
    PyObject* bytes =
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(total * sizeof(uint32_t)));
    if (!bytes) throw nanobind::python_error();
    char* to = PyBytes_AS_STRING(bytes);
    for (size_t i = 0; i < word_counts.size(); ++i) {
      size_t count = word_counts.data()[i];
      std::memcpy(to, words_.get() + block_end(i) - count, count * sizeof(uint32_t));
      to += count * sizeof(uint32_t);
    }
    return nanobind::steal<nanobind::bytes>(bytes);
  }

 private:
  size_t block_end(size_t block) const { return std::min((block + 1) * block_size, symbols_); }

  size_t symbols_;
  std::unique_ptr<uint32_t[]> words_;
};

}  // namespace skinny
