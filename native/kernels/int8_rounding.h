// Integers from floats and back, in vectors. Everything is in an anonymous namespace, as in vector.h.
#pragma once

#include "vector.h"

namespace {

typedef int32_t IVecAnywhere __attribute__((vector_size(4 * V), aligned(4), may_alias));
inline IVec load_cells(const float* from) { return *reinterpret_cast<const IVecAnywhere*>(from); }

constexpr float shifter = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
constexpr int32_t shifter_bits = 0x4B400000;

inline Vec limited(Vec x, Vec low, Vec high) {
#if defined(__AVX512F__)
  return _mm512_min_ps(_mm512_max_ps(x, low), high);
#elif defined(__AVX2__)
  return _mm256_min_ps(_mm256_max_ps(x, low), high);
#else
  x = x > low ? x : low;
  return x < high ? x : high;
#endif
}

// rint(clamp(x, low, high)) + zero; NaN is `low`.
inline IVec rounded(Vec x, float low, float high, int32_t zero) {
  return (IVec)(limited(x, Vec{} + low, Vec{} + high) + shifter) - (shifter_bits - zero);
}

inline Vec floats(IVec integers) { return __builtin_convertvector(integers, Vec); }

}  // namespace
