// The machine's vector of floats, in the compiler's own vector types: one source, any width.
// Everything is in an anonymous namespace, so that each instruction set keeps its own copy.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE__)
#include <xmmintrin.h>
#endif

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
// The first `count` lanes alone, the others zero; join_lanes takes the others from `rest`.
#if defined(__AVX512F__)
inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1u << count) - 1); }
inline Vec load_some(const float* from, size_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), from);
}
inline void store_some(float* to, Vec v, size_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), v);
}
inline Vec join_lanes(Vec first, size_t count, Vec rest) {
  return _mm512_mask_mov_ps(rest, first_lanes(count), first);
}
#elif defined(__AVX2__)
inline __m256i first_lanes(size_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load_some(const float* from, size_t count) {
  return _mm256_maskload_ps(from, first_lanes(count));
}
// By halves: AMD's processors take a dozen cycles for a masked store.
inline void store_some(float* to, Vec v, size_t count) {
  if (count >= V) return store(to, v);
  __m128 rest = _mm256_castps256_ps128(v);
  if (count & 4) {
    _mm_storeu_ps(to, rest);
    rest = _mm256_extractf128_ps(v, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), rest);
    rest = _mm_movehl_ps(rest, rest);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, rest);
}
inline Vec join_lanes(Vec first, size_t count, Vec rest) {
  return _mm256_blendv_ps(rest, first, _mm256_castsi256_ps(first_lanes(count)));
}
#else
inline Vec load_some(const float* from, size_t count) {
  Vec v{};
  memcpy(&v, from, count * sizeof(float));
  return v;
}
inline void store_some(float* to, Vec v, size_t count) { memcpy(to, &v, count * sizeof(float)); }
inline Vec join_lanes(Vec first, size_t count, Vec rest) {
  memcpy(&rest, &first, count * sizeof(float));
  return rest;
}
#endif
// x - 0 is x, also for -0.0; the compiler makes it one broadcast from memory. (x + 0 is not.)
inline Vec splat(float x) { return x - Vec{}; }

// A NaN passes through both, as in PyTorch: the comparison is false and `v` stays. x86 has an
// instruction for each, which returns its second operand where a NaN is compared; GCC takes two.
#if defined(__AVX512F__)
inline Vec at_least(Vec v, Vec low) { return _mm512_max_ps(low, v); }
inline Vec at_most(Vec v, Vec high) { return _mm512_min_ps(high, v); }
#elif defined(__AVX2__)
inline Vec at_least(Vec v, Vec low) { return _mm256_max_ps(low, v); }
inline Vec at_most(Vec v, Vec high) { return _mm256_min_ps(high, v); }
#elif defined(__SSE__)
inline Vec at_least(Vec v, Vec low) { return _mm_max_ps(low, v); }
inline Vec at_most(Vec v, Vec high) { return _mm_min_ps(high, v); }
#else
inline Vec at_least(Vec v, Vec low) { return v < low ? low : v; }
inline Vec at_most(Vec v, Vec high) { return v > high ? high : v; }
#endif

// The lanes of even, or of odd, index of two neighbouring vectors.
template <int Odd>
inline Vec alternate(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, Odd, Odd + 2, Odd + 4, Odd + 6, Odd + 8, Odd + 10, Odd + 12,
                                 Odd + 14, Odd + 16, Odd + 18, Odd + 20, Odd + 22, Odd + 24,
                                 Odd + 26, Odd + 28, Odd + 30);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, Odd, Odd + 2, Odd + 4, Odd + 6, Odd + 8, Odd + 10, Odd + 12,
                                 Odd + 14);
#else
  return __builtin_shufflevector(a, b, Odd, Odd + 2, Odd + 4, Odd + 6);
#endif
}

}  // namespace
