#include "bitmask.h"

#include <string.h>

namespace skinny::SKINNY_SET {
namespace {

// Bit i of the result: is byte i of the eight flags (each 0 or 1) set?
inline uint64_t gather_flags(const uint8_t* flags) {
  uint64_t eight;
  memcpy(&eight, flags, 8);
  return (eight * 0x0102040810204080ull) >> 56;
}

inline uint64_t load_word(const uint8_t* mask, size_t bits) {
  uint64_t word = 0;
  memcpy(&word, mask, (bits + 7) / 8);
  return bits < 64 ? word & ((uint64_t(1) << bits) - 1) : word;
}

template <class T>
inline uint64_t find_word(const T* dense, T relevant) {
  alignas(64) uint8_t flags[64];
  for (int i = 0; i < 64; ++i) flags[i] = (dense[i] & relevant) != 0;
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) word |= gather_flags(flags + 8 * i) << (8 * i);
  return word;
}

template <class T>
size_t find(const T* dense, size_t count, T relevant, uint8_t* mask) {
  size_t ones = 0, at = 0;
  for (; at + 64 <= count; at += 64) {
    uint64_t word = find_word(dense + at, relevant);
    ones += static_cast<size_t>(__builtin_popcountll(word));
    memcpy(mask + at / 8, &word, 8);
  }
  if (at < count) {
    uint64_t word = 0;
    for (size_t i = at; i < count; ++i) word |= uint64_t((dense[i] & relevant) != 0) << (i - at);
    ones += static_cast<size_t>(__builtin_popcountll(word));
    memcpy(mask + at / 8, &word, (count - at + 7) / 8);
  }
  return ones;
}

template <class T>
void gather(const T* dense, size_t count, const uint8_t* mask, T* values) {
  for (size_t at = 0; at < count; at += 64) {
    size_t bits = count - at < 64 ? count - at : 64;
    for (uint64_t word = load_word(mask + at / 8, bits); word; word &= word - 1)
      *values++ = dense[at + static_cast<size_t>(__builtin_ctzll(word))];
  }
}

template <class T>
void scatter(const T* values, size_t count, const uint8_t* mask, T* dense) {
  for (size_t at = 0; at < count; at += 64) {
    size_t bits = count - at < 64 ? count - at : 64;
    if (bits == 64)
      memset(dense + at, 0, 64 * sizeof(T));
    else
      memset(dense + at, 0, bits * sizeof(T));
    for (uint64_t word = load_word(mask + at / 8, bits); word; word &= word - 1)
      dense[at + static_cast<size_t>(__builtin_ctzll(word))] = *values++;
  }
}

size_t ones(const uint8_t* mask, size_t count) {
  size_t total = 0;
  for (size_t at = 0; at < count; at += 64) {
    size_t bits = count - at < 64 ? count - at : 64;
    total += static_cast<size_t>(__builtin_popcountll(load_word(mask + at / 8, bits)));
  }
  return total;
}

// The entry type is only a width: integers compare and copy every bit pattern exactly.
#define SKINNY_BY_WIDTH(call)        \
  switch (width) {                   \
    case 1: { using T = uint8_t; call; }  \
    case 2: { using T = uint16_t; call; } \
    case 4: { using T = uint32_t; call; } \
    default: { using T = uint64_t; call; } \
  }

size_t find_any(const void* dense, size_t width, size_t count, uint64_t relevant, uint8_t* mask) {
  SKINNY_BY_WIDTH(
      return find(static_cast<const T*>(dense), count, static_cast<T>(relevant), mask))
}

void gather_any(const void* dense, size_t width, size_t count, const uint8_t* mask, void* values) {
  SKINNY_BY_WIDTH(
      return gather(static_cast<const T*>(dense), count, mask, static_cast<T*>(values)))
}

void scatter_any(const void* values, size_t width, size_t count, const uint8_t* mask, void* dense) {
  SKINNY_BY_WIDTH(
      return scatter(static_cast<const T*>(values), count, mask, static_cast<T*>(dense)))
}

}  // namespace

const BitmaskKernels bitmask{find_any, ones, gather_any, scatter_any};

}  // namespace skinny::SKINNY_SET
