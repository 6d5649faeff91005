// The machine's vector of floats, in the compiler's own vector types: one source, any width.
// Everything is in an anonymous namespace, so that each instruction set keeps its own copy.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace {

#if defined(__AVX512F__)
constexpr int V = 16;
#elif defined(__AVX2__)
constexpr int V = 8;
#else
constexpr int V = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * V)));
typedef int32_t IVec __attribute__((vector_size(4 * V)));
// The same vector at an address of any alignment.
typedef float VecAnywhere __attribute__((vector_size(4 * V), aligned(4), may_alias));

inline Vec load(const float* from) { return *reinterpret_cast<const VecAnywhere*>(from); }
inline void store(float* to, Vec v) { *reinterpret_cast<VecAnywhere*>(to) = v; }
// The first `count` lanes alone, the others zero.
inline Vec load_some(const float* from, size_t count) {
  if (count == static_cast<size_t>(V)) return load(from);
  Vec v{};
  memcpy(&v, from, count * sizeof(float));
  return v;
}
inline void store_some(float* to, Vec v, size_t count) {
  if (count == static_cast<size_t>(V)) return store(to, v);
  memcpy(to, &v, count * sizeof(float));
}
// x - 0 is x, also for -0.0; the compiler makes it one broadcast from memory. (x + 0 is not.)
inline Vec splat(float x) { return x - Vec{}; }

// A NaN passes through both, as in PyTorch: the comparison is false and `v` stays.
inline Vec at_least(Vec v, Vec low) { return v < low ? low : v; }
inline Vec at_most(Vec v, Vec high) { return v > high ? high : v; }

}  // namespace
