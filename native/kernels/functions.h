// Elementary functions of vectors. In an anonymous namespace, so that each instruction set keeps its
// own copy.
#pragma once

#include "vector.h"

namespace {

inline IVec bits_of(Vec v) { return reinterpret_cast<IVec>(v); }
inline Vec magnitude(Vec v) { return reinterpret_cast<Vec>(bits_of(v) & 0x7fffffff); }

// e^x to about two units in the last place: e^x = 2^n e^r, |r| <= log(2) / 2, Cephes' polynomial.
inline Vec exponential(Vec x) {
  x = at_most(at_least(x, splat(-87.3f)), splat(88.3f));
  constexpr float magic = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer
  Vec shifted = x * 1.44269504f + magic;
  IVec n = bits_of(shifted) - 0x4b400000;
  Vec whole = shifted - magic;
  Vec r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.f;
  return p * reinterpret_cast<Vec>((n + 127) << 23);
}

// The same, but zero where e^x is smaller than the smallest normal float.
inline Vec exponential_or_zero(Vec x) { return x < -87.3f ? Vec{} : exponential(x); }

inline Vec sigmoid(Vec x) { return 1.f / (1.f + exponential(-x)); }

inline Vec tangent(Vec x) {
  Vec s = x * x, e = exponential(-2.f * magnitude(x));
  Vec far = (1.f - e) / (1.f + e);
  Vec near = x * (1.f + s * (-1.f / 3 + s * (2.f / 15 + s * (-17.f / 315))));
  return magnitude(x) < 0.1f ? near : (x < 0.f ? -far : far);
}

// e^x - 1 without cancellation near zero.
inline Vec exponential_less_one(Vec x) {
  Vec near = x * (1.f + x * (1.f / 2 + x * (1.f / 6 + x * (1.f / 24 + x * (1.f / 120)))));
  return magnitude(x) < 0.1f ? near : exponential(x) - 1.f;
}

// erf(x), to about four units in the last place of one: x p(x^2) / q(x^2), Eigen's coefficients.
inline Vec error_function(Vec x) {
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

inline Vec gelu(Vec x) { return 0.5f * x * (1.f + error_function(x * 0.70710678f)); }

}  // namespace
