// The one place that says which layers run on generated code, and in which form.
#pragma once

#include <optional>

#include "generator.h"
#include "isa.h"

namespace skinny::jit {

// What is known of a layer's weights, and of the tiles of one shape that it is computed in.
struct Layer {
  bool dense;
  size_t outputs, taps;  // of the weights' matrix
  size_t blocks;         // of taps
  size_t non_zeros;
  size_t tile_rows, tile_vectors;
  ptrdiff_t row_stride;     // of the tiles' input, in floats
  size_t tiles, all_tiles;  // of this shape and of all, for which code is run one after the other
  size_t input_bytes;       // that a tile reads in a block
  bool overlap;             // whether tiles of some taps have most vectors in common
  size_t code_before;       // bytes of the program's code that is made already
};

// No form where the interpreting kernels are faster, for instruction sets without one, and with
// SKINNY_JIT=0.
std::optional<Form> choose(Isa set, const Layer& layer);

}  // namespace skinny::jit
