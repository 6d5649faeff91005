// Sparse rows for one input vector, 16 at a time: a strip.
//
// The columns are divided into blocks of 32, whose inputs fill two registers. A slot holds one
// non-zero of each of the strip's rows in a block, a lane for each row: its value, and its column in
// the block, by which a permutation takes the input from the registers. Nothing is gathered from
// memory and no lanes are added up. Rows with fewer non-zeros in a block than others have slots of
// value 0, whose column is one where the row has no weight: an infinite input makes NaN there, as a
// dense product does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

constexpr size_t strip_rows = 16;
constexpr size_t strip_columns = 32;  // of a block

struct alignas(64) SlotValues {
  float lane[strip_rows];
};

struct alignas(16) SlotColumns {
  uint8_t lane[strip_rows];
};

struct StripBlock {
  uint32_t block;
  uint32_t pairs;  // of slots: two sums take turns
};

struct StripRows {
  const SlotValues* values;
  const SlotColumns* columns;
  const StripBlock* blocks;  // with non-zeros only; those of a strip by their pairs, most first
  const uint32_t* first_block;  // of each strip; and the end of the last
  const uint32_t* first_slot;
};

struct StripKernels {
  // y[begin..end) for one x, which has whole blocks of readable floats. Null where an instruction
  // set has no permutation of 32 floats.
  void (*one)(const StripRows& weights, size_t begin, size_t end, const float* x,
              const float* bias, float* y);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(StripKernels, strips)
