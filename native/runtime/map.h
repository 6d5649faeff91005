// Elementwise code: a list of instructions on registers, each of which holds a block of elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace skinny {

// Arguments a, b, c. What is not zero is true; comparisons and logic give 0 or 1. A register that
// holds integers may be converted by from_int, and be a truth value.
enum class Opcode : uint8_t {
  add, sub, mul, div, pow, minimum, maximum,
  neg, abs, sqrt, rsqrt, reciprocal, exp, expm1, log, log1p, erf, sin, cos,
  floor, ceil, round, trunc, sign,
  clamp,       // b, c: low and high
  leaky_relu,  // b: slope
  elu,         // b: alpha
  prelu,       // b: slope
  softplus,    // b: beta, c: threshold
  sigmoid, tanh, silu, gelu, gelu_tanh, hardswish, hardsigmoid, mish,
  eq, ne, lt, le, gt, ge, logical_not, logical_and, logical_or, logical_xor,
  where,  // b where a, else c
  from_int
};
constexpr size_t opcode_count = static_cast<size_t>(Opcode::from_int) + 1;

struct Instruction {
  Opcode op;
  uint8_t to, a, b, c;  // registers
};

struct MapKernels {
  // Runs the code on `n` elements of each register; the last instruction writes to `out`.
  void (*run)(const Instruction* code, size_t count, float* const* registers, float* out, size_t n);
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(MapKernels, map)
