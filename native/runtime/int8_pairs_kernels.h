// Layers in int8 with AVX2 and without VNNI whose non-zeros are single ones: sums in 16 bits first.
//
// A *pair* is the weights of an output channel for two neighbouring channels of a cell, of one sign.
// The cells that are read are unpacked, into planes of two channels of each pixel, x - 128 for
// positive weights and 127 - x for negative ones; `vpmaddubsw` multiplies a pair with 16 pixels of a
// plane and adds the two products, in 16 bits. A *segment* is a number of pairs whose sum stays
// within 16 bits whatever the input is, so that sums of 32 bits are needed once for each segment:
//
//   for each segment of a row:
//     for each of its pairs: sum16 += |pair| * pixels     # vpmaddubsw, vpaddw
//     sum32 += sum16                                      # even and odd pixels by themselves
//
// Segments of a row differ in their length by one at most, so that the processor has little to guess.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace skinny {

constexpr size_t max_segment = 8;      // pairs
constexpr size_t strip_vectors = 4;    // of 16 pixels, whose sums are in registers
constexpr size_t pixels_at_once = 16;
constexpr size_t pairs_block = 48;     // output channels whose sums are in the first-level cache

struct Int8Pair {
  uint16_t offset;  // in pixels, from the strip's first
  uint8_t weights[2];
};

// An output channel: how many segments have the run's length, and how many are shorter by one.
struct Int8PairRow {
  uint16_t row, whole, shorter;
};
struct Int8PairRun {
  uint32_t length, rows;
};

struct Int8PairKernels {
  // Four planes, `length` pixels each, from `count` cells, a multiple of 16: channels 0 and 1, their
  // complement, channels 2 and 3, their complement.
  void (*unpack)(const float* cells, size_t count, uint16_t* planes, size_t length);
  // sums[8 pixels][row]: for `vectors` vectors, `apart` pixels apart (at most 4). start: null if the
  // sums are added to those that are there.
  void (*sums)(const Int8PairRun* runs, size_t count, const Int8PairRow* rows,
               const Int8Pair* pairs, const uint16_t* planes, size_t vectors, size_t apart,
               const int32_t* start, int32_t* sums, size_t all_rows);
};

#if defined(__x86_64__)
namespace avx2 { extern const Int8PairKernels int8_pairs; }
#endif

}  // namespace skinny
