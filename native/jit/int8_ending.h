// What generated code makes of the sums of a layer in int8 while they are in registers: cells, or
// floats, by the instructions of kernels/int8_finish.cpp, so that the bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/int8_weights.h"
#include "x86.h"

namespace skinny::jit {

// Nothing is added to the sums. Cells have the limits of a byte, and their rows are whole quads.
struct Int8Ending {
  bool cells;       // or floats
  float low, high;  // of floats
  float inverse;    // cells: as in Int8Output
  int32_t zero;
  bool bounded;

  size_t rows_at_once() const { return cells ? 4 : 1; }  // that are stored as a vector
};

// What the code of a block reads.
struct Int8Constants {
  Int8Constants(const Int8Ending& ending, const Int8Weights& weights, size_t block);

  float scale[int8_block] = {}, bias[int8_block] = {};
  float inverse, low, high;
  int16_t zero[2];
  uint8_t cell[64];  // which byte of four rows goes where
};

class Int8EndingCode {
 public:
  // constants: of the block. to: where the next vector is stored; stride: the bytes to the one after
  // it. Takes the vector registers from `first_register` on but the last.
  Int8EndingCode(Assembler& code, const Int8Ending& ending, Reg constants, Reg to, Reg stride)
      : code_(code), ending_(ending), constants_(constants), to_(to), stride_(stride) {}
  static constexpr uint8_t first_register = 27;

  void load_constants();
  void store(size_t row);  // it and the next ones at once; sums are in the registers of their rows

 private:
  // Whether every number is an integer of 32 bits when it is rounded, and the zero point is 0.
  bool simple() const { return ending_.bounded && ending_.zero == 0; }
  void scale(size_t row);

  Assembler& code_;
  const Int8Ending& ending_;
  Reg constants_, to_, stride_;
};

}  // namespace skinny::jit
