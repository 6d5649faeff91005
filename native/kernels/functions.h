// Functions of vectors, to two or three units in the last place of the result, for every float: NaN
// stays NaN, and infinities, zeros and subnormal numbers give what NumPy gives.
// Everything is in an anonymous namespace, so that each instruction set keeps its own copy.
#pragma once

#include <math.h>

#include "vector.h"

namespace {

inline IVec bits_of(Vec v) { return reinterpret_cast<IVec>(v); }
inline Vec of_bits(IVec v) { return reinterpret_cast<Vec>(v); }
inline Vec magnitude(Vec v) { return of_bits(bits_of(v) & 0x7fffffff); }
inline Vec with_sign(Vec v, Vec sign) {
  return of_bits((bits_of(v) & 0x7fffffff) | (bits_of(sign) & INT32_MIN));
}
// 2^n for -126 <= n <= 127.
inline Vec power_of_two(IVec n) { return of_bits((n + 127) << 23); }

// As NumPy's: NaN if either is NaN, which the instructions leave to be seen to (GCC takes four).
#if defined(__AVX512F__)
inline Vec larger(Vec a, Vec b) {
  return _mm512_mask_add_ps(_mm512_max_ps(b, a), _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b);
}
inline Vec smaller(Vec a, Vec b) {
  return _mm512_mask_add_ps(_mm512_min_ps(b, a), _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b);
}
#elif defined(__AVX2__)
inline Vec larger(Vec a, Vec b) {
  return _mm256_or_ps(_mm256_max_ps(b, a), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
inline Vec smaller(Vec a, Vec b) {
  return _mm256_or_ps(_mm256_min_ps(b, a), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
#else
inline Vec larger(Vec a, Vec b) { return b > a || b != b ? b : a; }
inline Vec smaller(Vec a, Vec b) { return b < a || b != b ? b : a; }
#endif

inline Vec root(Vec v) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(v);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(v);
#elif defined(SKINNY_NEON)
  return vsqrtq_f32(v);
#else
  for (int i = 0; i < V; ++i) v[i] = sqrtf(v[i]);
  return v;
#endif
}

// x = n log 2 + r with |r| <= log(2) / 2; returns (e^r - 1 - r) / r^2, Cephes' polynomial.
inline Vec reduced_exponential(Vec x, IVec& n, Vec& r) {
  constexpr float magic = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
  Vec shifted = x * 1.44269504f + magic;
  n = bits_of(shifted) - 0x4b400000;
  Vec whole = shifted - magic;
  r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  return p * r + 5.0000001201e-1f;
}

// e^x. The power of two is multiplied in two halves, of which one alone is always representable.
inline Vec exponential(Vec x) {
  x = at_most(at_least(x, splat(-104.f)), splat(89.f));
  IVec n;
  Vec r, p = reduced_exponential(x, n, r);
  IVec half = n >> 1;
  return (p * r * r + r + 1.f) * power_of_two(half) * power_of_two(n - half);
}

// The same for x up to 88, and zero where e^x is smaller than the smallest normal float.
inline Vec exponential_or_zero(Vec x) {
  IVec n;
  Vec r, p = reduced_exponential(at_least(x, splat(-87.3f)), n, r);
  return x < -87.3f ? Vec{} : (p * r * r + r + 1.f) * power_of_two(n);
}

// e^x - 1 without cancellation near zero, for x up to 80: 2^n (e^r - 1) + (2^n - 1).
inline Vec exponential_less_one(Vec x) {
  IVec n;
  Vec r, p = reduced_exponential(at_most(at_least(x, splat(-80.f)), splat(80.f)), n, r);
  Vec power = power_of_two(n);
  return power * (p * r * r + r) + (power - 1.f);
}

// log(x): x = m 2^e with m within a factor of root 2 of one, Cephes' polynomial.
inline Vec logarithm(Vec x) {
  auto tiny = x < 1.17549435e-38f;
  Vec scaled = tiny ? x * 16777216.f : x;  // subnormal numbers
  IVec bits = bits_of(scaled);
  IVec e = ((bits >> 23) & 0xff) - 126;
  Vec m = of_bits((bits & 0x007fffff) | 0x3f000000);  // [0.5, 1)
  auto low = m < 0.707106781f;
  e = e - (low ? IVec{} + 1 : IVec{}) - (tiny ? IVec{} + 24 : IVec{});
  m = (low ? m + m : m) - 1.f;
  Vec z = m * m;
  Vec p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  Vec exponent = __builtin_convertvector(e, Vec);
  Vec y = p * m * z + exponent * -2.12194440e-4f - z * 0.5f;
  y = m + y + exponent * 0.693359375f;
  y = x < INFINITY ? y : x;  // infinity and NaN
  y = x == 0.f ? splat(-INFINITY) : y;
  return x < 0.f ? splat(NAN) : y;
}

// log(1 + x): the rounding of 1 + x is undone by x / ((1 + x) - 1).
inline Vec logarithm_plus_one(Vec x) {
  Vec sum = 1.f + x, rounded = sum - 1.f;
  Vec y = logarithm(sum) * (x / rounded);
  return rounded == 0.f || x == INFINITY ? x : y;
}

// log(1 + e^x)
inline Vec soft_plus(Vec x) {
  return at_least(x, Vec{}) + logarithm_plus_one(exponential(-magnitude(x)));
}

inline Vec sigmoid(Vec x) { return 1.f / (1.f + exponential(-x)); }

// x sigmoid(x) to three units in the last place for x > -20, in half the time. Below, results are
// smaller than 1e-7 and have up to twelve units of error; below -88, they are about -1e-37, minus
// infinity's too.
inline Vec fast_silu(Vec x) {
  constexpr float magic = 12582912.f, by_log2 = -1.44269504f;
  Vec low = at_least(x, splat(-88.72f)), t = at_most(low, splat(87.f));
  Vec shifted = t * by_log2 + magic, r = t * by_log2 - (shifted - magic);
  Vec p = r * 1.326472731e-3f + 9.671512991e-3f;  // 2^r for |r| <= 1/2
  p = p * r + 5.550733581e-2f;
  p = p * r + 2.402224243e-1f;
  p = p * r + 6.931470037e-1f;
  p = p * r + 1.f;
  return low / (1.f + of_bits(bits_of(p) + (bits_of(shifted) << 23)));
}

inline Vec tangent(Vec x) {
  Vec e = exponential_less_one(-2.f * magnitude(x));
  return with_sign(e / (e + 2.f), x);
}

// erf(x): a polynomial below 0.93, 1 - e^polynomial above (N. Juffa's coefficients).
inline Vec error_function(Vec x) {
  Vec s = x * x, t = at_most(magnitude(x), splat(4.f)), q = t * t;
  Vec far = t * -1.72853470e-5f + 3.83197126e-4f;
  far = far * q + (t * -3.88396438e-3f + 2.42546219e-2f);
  far = far * t - 1.06777877e-1f;
  far = far * t - 6.34846687e-1f;
  far = far * t - 1.28717512e-1f;
  far = 1.f - exponential(far * t - t);
  Vec near = s * -5.96761703e-4f + 4.99119423e-3f;
  near = near * s - 2.67681349e-2f;
  near = near * s + 1.12819925e-1f;
  near = near * s - 3.76125336e-1f;
  near = near * s + 1.28379166e-1f;
  near = near * x + x;
  return magnitude(x) > 0.927734375f ? with_sign(far, x) : near;
}

// erf(x) without an exponential, to about four units in the last place of one, which are all that
// 1 + erf(x) keeps: x p(x^2) / q(x^2), Eigen's coefficients.
inline Vec fast_error_function(Vec x) {
  x = at_most(at_least(x, splat(-4.f)), splat(4.f));
  Vec s = x * x;
  Vec p = s * -2.72614225801306e-10f + 2.77068142495902e-8f;
  p = p * s - 2.10102402082508e-6f;
  p = p * s - 5.69250639462346e-5f;
  p = p * s - 7.34990630326855e-4f;
  p = p * s - 2.95459980854025e-3f;
  p = p * s - 1.60960333262415e-2f;
  Vec q = s * -1.45660718464996e-5f - 2.13374055278905e-4f;
  q = q * s - 1.68282697438203e-3f;
  q = q * s - 7.37332916720468e-3f;
  q = q * s - 1.42647390514189e-2f;
  return x * p / q;
}

inline Vec gelu(Vec x) { return 0.5f * x * (1.f + fast_error_function(x * 0.70710678f)); }

inline Vec gelu_by_tangent(Vec x) {
  return 0.5f * x * (1.f + tangent(0.79788456f * (x + 0.044715f * x * x * x)));
}

inline Vec hard_sigmoid(Vec x) {
  return at_most(at_least(x + 3.f, Vec{}), splat(6.f)) * (1.f / 6);
}

// The nearest integer, of ties the even one; from 2^23 on every float is an integer.
inline Vec nearest(Vec x) {
  constexpr float magic = 8388608.f;  // 2^23
  Vec size = magnitude(x), rounded = (size + magic) - magic;
  return with_sign(size < magic ? rounded : size, x);
}

inline Vec rounded_down(Vec x) {
  Vec whole = nearest(x);
  return whole > x ? whole - 1.f : whole;
}

inline Vec rounded_up(Vec x) { return -rounded_down(-x); }

inline Vec truncated(Vec x) { return with_sign(rounded_down(magnitude(x)), x); }

// sin(x) and cos(x) by quadrants: x = n pi / 2 + r. The subtraction is exact enough up to 2^13;
// larger angles are rare and go to libm one by one.
inline Vec sine_or_cosine(Vec x, bool cosine) {
  constexpr float largest = 8192.f;
  Vec whole = nearest(x * 0.636619772f);
  Vec r = x - whole * 1.5703125f - whole * 4.837512969970703125e-4f - whole * 7.549789948768648e-8f;
  IVec n = __builtin_convertvector(magnitude(x) < largest ? whole : Vec{}, IVec) + (cosine ? 1 : 0);
  Vec z = r * r;
  Vec s = z * -1.9515295891e-4f + 8.3321608736e-3f;
  s = (s * z - 1.6666654611e-1f) * z * r + r;
  Vec c = z * 2.443315711809948e-5f - 1.388731625493765e-3f;
  c = ((c * z + 4.166664568298827e-2f) * z - 0.5f) * z + 1.f;
  Vec y = (n & 1) == 0 ? s : c;
  y = (n & 2) == 0 ? y : -y;
  for (int i = 0; i < V; ++i)
    if (!(fabsf(x[i]) < largest)) y[i] = cosine ? cosf(x[i]) : sinf(x[i]);
  return y;
}

typedef double DVec __attribute__((vector_size(8 * V)));
typedef int64_t LVec __attribute__((vector_size(8 * V)));

// x^y for positive, finite x and finite y: e^(y log x) in doubles.
inline Vec positive_power(Vec x, Vec y) {
  DVec d = __builtin_convertvector(x, DVec);
  LVec bits = reinterpret_cast<LVec>(d);
  LVec e = (bits >> 52) - 1023;
  DVec m = reinterpret_cast<DVec>((bits & 0xfffffffffffff) | 0x3ff0000000000000);  // [1, 2)
  auto high = m > 1.4142135623730951;
  m = high ? m * 0.5 : m;
  e = e - high;  // a true lane is -1
  DVec s = (m - 1.0) / (m + 1.0), z = s * s;  // log m = 2 atanh(s)
  DVec p = z * (1.0 / 15) + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  DVec log2 = (p * z * s + s) * 2.8853900817779268 + __builtin_convertvector(e, DVec);
  DVec t = __builtin_convertvector(y, DVec) * log2;
  t = t < -200.0 ? DVec{} - 200.0 : t;
  t = t > 200.0 ? DVec{} + 200.0 : t;
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  DVec shifted = t + magic;
  LVec n = reinterpret_cast<LVec>(shifted) - 0x4338000000000000;
  DVec r = (t - (shifted - magic)) * 0.6931471805599453;
  DVec q = r * (1.0 / 362880) + 1.0 / 40320;
  q = q * r + 1.0 / 5040;
  q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120;
  q = q * r + 1.0 / 24;
  q = q * r + 1.0 / 6;
  q = q * r + 0.5;
  q = q * r * r + r + 1.0;
  return __builtin_convertvector(q * reinterpret_cast<DVec>((n + 1023) << 52), Vec);
}

// x^y; squares, the usual case, are exact. Of a negative x, y must be an integer, whose lowest bit
// is the sign. Zeros, infinities and NaN go to libm one by one.
inline Vec power(Vec x, Vec y) {
  bool squares = true;
  for (int i = 0; i < V; ++i) squares &= y[i] == 2.f;
  if (squares) return x * x;
  Vec result = positive_power(magnitude(x), y);
  Vec half = y * 0.5f;
  Vec odd = rounded_down(half) != half ? -result : result;
  Vec of_negative = rounded_down(y) == y ? odd : splat(NAN);
  result = x < 0.f ? of_negative : result;
  for (int i = 0; i < V; ++i)
    if (!(x[i] != 0.f && fabsf(x[i]) < INFINITY && fabsf(y[i]) < INFINITY))
      result[i] = powf(x[i], y[i]);
  return result;
}

}  // namespace
