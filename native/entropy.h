// Entropy coding of masks, as docs/format.md specifies it: rANS over the bytes of a mask.
//
// A byte is coded as its number of ones k, with the frequencies of the byte's class, and its rank
// among the bytes with k ones, which are equally likely. The mask is divided into blocks that are
// coded independently, so that several decode at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "blocks.h"

namespace skinny::entropy {

constexpr size_t counts = 9;       // a byte has 0 to 8 ones
constexpr size_t max_classes = 9;  // by how many ones the bytes before it had
// States live in [low, low << 32). The factor 280 = lcm(C(8, k)) makes coding a rank exact.
constexpr uint64_t low = uint64_t(280) << 22;

constexpr std::array<uint64_t, counts> patterns{1, 8, 28, 56, 70, 56, 28, 8, 1};  // C(8, k)

// The class of the next byte, from a decaying count of ones.
struct Recent {
  static constexpr uint32_t levels = 129;  // many bytes of eight ones make ones = 1024
  uint32_t ones = 0;
  uint32_t level() const { return ones >> 3; }
  static size_t class_of(uint32_t level, size_t classes) {
    size_t own = level ? 32u - static_cast<unsigned>(__builtin_clz(level)) : 0;
    return own < classes ? own : classes - 1;
  }
  size_t class_of(size_t classes) const { return class_of(level(), classes); }
  void add(uint32_t k) { ones += 16 * k - (ones >> 3); }
};

struct Table {
  std::array<uint32_t, counts> frequency;
  std::array<uint32_t, counts> first;  // sum of the frequencies before
};

}  // namespace skinny::entropy
