// Kernels of layers in int8.
//
// A *cell* is four bytes of the arena: four neighbouring channels of one pixel, as uint8. A vector is
// the cells of neighbouring pixels. A weight is a *quad*, the int8 weights of an output channel for
// the four channels of a cell: quad times cell is four products, summed in 32 bits.
//
// All float32 operations are rounded one by one (the file is compiled without contraction to FMAs),
// in the order of docs/format.md, so that every instruction set gives the very same bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "isa.h"

namespace skinny {

constexpr size_t int8_vectors = 16;  // that are computed at a time, by generated code

// Output channels of a layer, each with its first sum, and their quads: row after row, with the tap of
// each; or tap after tap, with the rows that have a quad for it, which may be none.
struct Int8Rows {
  const uint32_t* first;     // of each row, into taps and quads; one more at the end
  const uint16_t* taps;      // indices into `offsets`, of each quad
  const uint32_t* tap_rows;  // of each tap: a bit for each row
  const int32_t* quads;
  const int32_t* start;      // of each row's sum
  const int32_t* offsets;    // of each tap, in cells
  size_t taps_count, rows;
  // Vectors of two rows of half a vector each: the cells between the two. 0: vectors of one row.
  ptrdiff_t gap;
};

// Lanes of a vector that are neighbours in the output: `count` lanes from `first` on. The offsets
// are those of lane 0.
struct Int8Piece {
  int32_t out, add;
  uint16_t first, count;
};

// What becomes of the sums of output channels.
struct Int8Output {
  const float *scale, *bias;  // of each of the channels
  size_t channels;
  bool cells;                 // or floats
  float low, high;            // floats: clamped to these; cells: limits of the integer minus `zero`
  float inverse;              // cells: of the scale
  int32_t zero;
  bool bounded;               // cells: every sum, scaled, is an integer of 32 bits
  float* to;                  // the cells of the first four channels, or the floats of the first
  size_t to_stride;           // to the cells of the next four, or the floats of the next
  enum class Add : int { nothing, floats, cells } add;  // a value that is added before
  const float* from;          // as `to`
  size_t from_stride;
  float add_scale;
  int32_t add_zero;
};

// A fully connected layer's row (int8_matrix.h). Whole vectors of bits and values may be read.
struct Int8Row {
  const uint64_t* quads;  // a bit for each four columns, 256 columns in each
  const uint8_t* bits;    // four for each of these that is set, the lower half of a byte first; those
                          // of the next 256 columns begin with a byte of their own
  const int8_t* values;   // one for each of these that is set
};

struct Int8Kernels {
  size_t lanes;  // cells of a vector
  // sums[vector][row][lane]; in: where each vector's lane 0 begins.
  void (*sums)(const Int8Rows& rows, const float* const* in, size_t vectors, int32_t* sums);
  void (*sums_by_tap)(const Int8Rows& rows, const float* const* in, size_t vectors, int32_t* sums);
  // count cells from the floats of four channels (null: zero).
  void (*quantize)(const float* const* channels, size_t count, float inverse, int32_t zero,
                   float* cells);
  // count bytes from as many floats.
  void (*quantize_row)(const float* from, size_t count, float inverse, int32_t zero, uint8_t* to);
  void (*dequantize)(const float* cells, size_t count, float scale, int32_t zero,
                     float* const* channels);
  // Each byte of `width` cells: the largest of `count` rows.
  void (*largest_of_rows)(const float* const* rows, size_t count, size_t width, float* to);
  // Each byte of `count` cells: the largest of `length` cells, `dilation` apart, of which the first
  // is cell step * i, step being 1 or 2. Reads up to 2 lanes more.
  void (*largest_of_windows)(const float* from, size_t step, size_t length, size_t dilation,
                             size_t count, float* to);
};

struct Int8Finish {
  // The channels' sums, `lanes` apart, of vectors, `stride` apart. Those of vector i have the pieces
  // from first[i] to before first[i + 1].
  void (*run)(const int32_t* sums, size_t stride, const Int8Output& output,
              const Int8Piece* pieces, const uint32_t* first, size_t vectors);
  // Stores the pieces of `count` vectors, which lie one after the other, `stride` apart.
  void (*place)(const float* vectors, size_t count, const Int8Piece* pieces, size_t pieces_count,
                float* to, size_t stride);
};

struct Int8Dot {
  // Products of a row of weights with `vectors` rows of 64 * words bytes each.
  void (*run)(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride, size_t vectors,
              int32_t* sums);
  // Quads of their bits and values: `count`, and up to 15 more.
  void (*expand)(const uint8_t* bits, const int8_t* values, size_t count, int32_t* quads);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(Int8Kernels, int8)
SKINNY_DECLARE_KERNELS(Int8Finish, int8_finish)
SKINNY_DECLARE_KERNELS(Int8Dot, int8_dot)

#if defined(__x86_64__)
namespace skinny::avx2 { extern const Int8Kernels int8_vnni; }
namespace skinny::avx512 {
extern const Int8Kernels int8_vnni;
extern const Int8Dot int8_dot_vnni;
}  // namespace skinny::avx512
#endif

namespace skinny {

// Whether `vpdpbusd` (and with AVX-512 `vpexpandb`) is there, or what SKINNY_VNNI=0 or =1 says: a test
// emulates it.
bool has_vnni();
const Int8Kernels& int8_kernels();
const Int8Dot& int8_dot();
// Whether code is generated for layers in int8, unless SKINNY_JIT=0.
bool generates_int8();

}  // namespace skinny
