// Generated code of layers in int8, for AVX-512 with VNNI: up to 24 output channels in registers, a
// vector of cells after the other.
//
//   for each vector:
//     sum[row] = start[row], or what the code before left
//     for each tap that one of the rows has a quad for:      # unrolled
//       x = cells of the vector at the tap
//       sum[row] += quad * x                                 # vpdpbusd zmm, zmm, [quads]{1to16}
//     store the sums, or what becomes of them (int8_ending.h)
//
// Quads are no part of the code: it reads those of the weights, which are in the order of taps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "executable.h"
#include "int8_ending.h"
#include "runtime/int8_weights.h"

namespace skinny::jit {

// Vectors that code computes one after the other.
struct Int8Strip {
  const float* in[int8_vectors];  // where lane 0 of each begins
  float* to[int8_vectors];        // where code with an ending stores the first cells or floats,
  size_t stride[int8_vectors];    // and the bytes to the next
};

class Int8Code {
 public:
  // Null where there is no such code: on other processors, with SKINNY_JIT=0, for code of more than
  // `most` bytes, and where the system refuses executable memory. gap: as in Int8Rows.
  static std::unique_ptr<const Int8Code> make(const Int8Weights& weights,
                                              const std::vector<int32_t>& offsets, int32_t gap,
                                              const std::optional<Int8Ending>& ending,
                                              size_t most, CodeWriter& writer);
  static size_t estimate(const Int8Weights& weights);  // of its bytes
  // As Int8Kernels::sums_by_tap, for a block of the weights; `quads` has room for those of a block
  // that are packed. With an ending, sums are scratch, and what is at strip.to may be those of its
  // own vector.
  void run(size_t block, const Int8Weights& weights, const Int8Strip& strip, size_t vectors,
           int32_t* sums, int32_t* quads) const;
  bool ready() const { return code_.ready(); }
  bool has_ending() const { return !constants_.empty(); }
  size_t bytes() const { return code_.bytes(); }

 private:
  struct Chunk {
    size_t code, quad, end;  // its quads
    size_t value;            // packed: the first one of sixteen quads, of which one is the chunk's
  };
  Int8Code(Executable code, std::vector<std::vector<Chunk>> blocks,
           std::vector<Int8Constants> constants)
      : code_(std::move(code)), blocks_(std::move(blocks)), constants_(std::move(constants)) {}

  Executable code_;
  std::vector<std::vector<Chunk>> blocks_;
  std::vector<Int8Constants> constants_;  // of each block, for the ending
  friend class Int8Generator;
};

}  // namespace skinny::jit
