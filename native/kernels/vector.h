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
#elif defined(SKINNY_NEON)
#include <arm_neon.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int V = 16;
#elif defined(__AVX2__)
constexpr int V = 8;
#else
constexpr int V = 4;
#endif

// Vector registers: 32 with AVX-512 and NEON, otherwise 16.
#if defined(__AVX512F__) || defined(SKINNY_NEON)
constexpr bool many_registers = true;
#else
constexpr bool many_registers = false;
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
#elif defined(SKINNY_NEON)
inline Vec load_some(const float* from, size_t count) {
  if (count >= V) return load(from);
  float32x2_t low = vdup_n_f32(0), high = low;
  if (count & 2) low = vld1_f32(from);
  if (count == 1) low = vld1_lane_f32(from, low, 0);
  if (count == 3) high = vld1_lane_f32(from + 2, high, 0);
  return vcombine_f32(low, high);
}
inline void store_some(float* to, Vec v, size_t count) {
  if (count >= V) return store(to, v);
  if (count & 2) vst1_f32(to, vget_low_f32(v));
  if (count == 1) vst1q_lane_f32(to, v, 0);
  if (count == 3) vst1q_lane_f32(to + 2, v, 2);
}
inline Vec join_lanes(Vec first, size_t count, Vec rest) {
  const IVec lane = {0, 1, 2, 3};
  return lane < static_cast<int32_t>(count) ? first : rest;
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

// Weights that are multiplied with vectors one by one, each in every lane. x86 broadcasts a float
// from memory for nothing; ARM's FMA takes a factor from any lane of a vector, so that V weights
// take one load. Both call f in the order of the weights.
#if defined(SKINNY_NEON)
template <int I>
inline Vec splat_lane(Vec v) {
  return __builtin_shufflevector(v, v, I, I, I, I);
}
template <class F>
inline void each_weight(const float* weight, const float* end, F f) {
  for (; end - weight >= V; weight += V) {
    Vec several = load(weight);
    f(splat_lane<0>(several)), f(splat_lane<1>(several));
    f(splat_lane<2>(several)), f(splat_lane<3>(several));
  }
  for (; weight != end; ++weight) f(splat(*weight));
}
// f(m, weight[m]) for m = First, ..., M - 1.
template <int M, int First = 0, class F>
inline void each_of(const float* weight, F f) {
  constexpr int count = M - First < V ? M - First : V;
  Vec several = load_some(weight + First, count);
  f(First, splat_lane<0>(several));
  if constexpr (count > 1) f(First + 1, splat_lane<1>(several));
  if constexpr (count > 2) f(First + 2, splat_lane<2>(several));
  if constexpr (count > 3) f(First + 3, splat_lane<3>(several));
  if constexpr (count < M - First) each_of<M, First + V>(weight, f);
}
#else
template <class F>
inline void each_weight(const float* weight, const float* end, F f) {
  for (; weight != end; ++weight) f(splat(*weight));
}
template <int M, class F>
inline void each_of(const float* weight, F f) {
  for (int m = 0; m < M; ++m) f(m, splat(weight[m]));
}
#endif

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
