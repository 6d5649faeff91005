// Bitmask packing: which entries of a tensor are not zero, one bit each, and their values.
//
// Entry i is bit (i % 8) of mask byte (i / 8). Entries are 1, 2, 4 or 8 bytes wide, whatever they
// mean; one is zero when all its bits are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

struct BitmaskKernels {
  // Writes the mask of `count` entries, padding bits zero; returns how many are not zero. Bits
  // outside `relevant` are ignored: without the sign bit, -0.0 is a zero too.
  size_t (*find)(const void* dense, size_t width, size_t count, uint64_t relevant, uint8_t* mask);
  // Number of ones among the first `count` bits.
  size_t (*ones)(const uint8_t* mask, size_t count);
  // Copies the entries the mask names to `values`, in order.
  void (*gather)(const void* dense, size_t width, size_t count, const uint8_t* mask, void* values);
  // Writes all `count` entries: the next value where the mask has a one, else zero.
  void (*scatter)(const void* values, size_t width, size_t count, const uint8_t* mask, void* dense);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(BitmaskKernels, bitmask)
