#include "runtime/strided.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

// The lanes of the lower (upper) halves of a and b, alternately.
#if defined(__AVX512F__)
inline Vec zip_low(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
inline Vec zip_high(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}
#elif defined(__AVX2__)
inline Vec zip_low(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
}
inline Vec zip_high(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#else
inline Vec zip_low(Vec a, Vec b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Vec zip_high(Vec a, Vec b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#endif

// A block of V x V: each round zips row i with row i + V / 2, and after log2 V rounds rows are
// columns.
inline void transpose_block(const float* from, size_t from_stride, float* to, size_t to_stride) {
  Vec row[V], zipped[V];
  for (int i = 0; i < V; ++i) row[i] = load(from + static_cast<size_t>(i) * from_stride);
  for (int round = 1; round < V; round *= 2) {
    for (int i = 0; i < V / 2; ++i) {
      zipped[2 * i] = zip_low(row[i], row[i + V / 2]);
      zipped[2 * i + 1] = zip_high(row[i], row[i + V / 2]);
    }
    for (int i = 0; i < V; ++i) row[i] = zipped[i];
  }
  for (int i = 0; i < V; ++i) store(to + static_cast<size_t>(i) * to_stride, row[i]);
}

void transpose(const float* from, size_t from_stride, float* to, size_t to_stride, size_t rows,
               size_t columns) {
  size_t r = 0;
  for (; r + V <= rows; r += V) {
    size_t c = 0;
    for (; c + V <= columns; c += V)
      transpose_block(from + c * from_stride + r, from_stride, to + r * to_stride + c, to_stride);
    for (; c < columns; ++c)
      for (size_t i = r; i < r + V; ++i) to[i * to_stride + c] = from[c * from_stride + i];
  }
  for (; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) to[r * to_stride + c] = from[c * from_stride + r];
}

#if defined(__AVX512F__)
// Rows are a vector or two: masks instead of loops for their ends.
template <size_t Step>
void take_row(const TakenRows& rows, const float* from, float* to) {
  for (size_t x = 0; x < rows.width; x += V) {
    auto before = [&](size_t end) -> unsigned {
      return end <= x ? 0 : end < x + V ? (1u << (end - x)) - 1 : 0xFFFF;
    };
    unsigned mask = before(rows.high) & ~before(rows.low);
    Vec v;
    if constexpr (Step == 1) {
      v = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from + x);
    } else {
      unsigned both = _pdep_u32(mask, 0x55555555);
      v = alternate<0>(_mm512_maskz_loadu_ps(static_cast<__mmask16>(both), from + 2 * x),
                       _mm512_maskz_loadu_ps(static_cast<__mmask16>(both >> 16), from + 2 * x + V));
    }
    store_some(to + x, v, rows.width - x < V ? rows.width - x : V);
  }
}
#else
template <size_t Step>
void take_row(const TakenRows& rows, const float* from, float* to) {
  size_t x = 0;
  for (; x < rows.low; ++x) to[x] = 0;
  if constexpr (Step == 1)
    for (; x + V <= rows.high; x += V) store(to + x, load(from + x));
  else  // not the last entry: after it there need not be another float
    for (; x + V < rows.high; x += V)
      store(to + x, alternate<0>(load(from + 2 * x), load(from + 2 * x + V)));
  for (; x < rows.high; ++x) to[x] = from[Step * x];
  for (; x < rows.width; ++x) to[x] = 0;
}
#endif

void take_any(const TakenRows& rows, const float* from, float* to) {
  for (size_t x = 0; x < rows.low; ++x) to[x] = 0;
  for (size_t x = rows.low; x < rows.high; ++x) to[x] = from[rows.step * x];
  for (size_t x = rows.high; x < rows.width; ++x) to[x] = 0;
}

void take(const TakenRows& rows) {
  auto row = rows.step == 1 ? take_row<1> : rows.step == 2 ? take_row<2> : take_any;
  const float* from = rows.from;
  float* to = rows.to;
  for (size_t y = 0; y < rows.count; ++y, from += rows.from_stride, to += rows.to_stride)
    row(rows, from, to);
}

}  // namespace

const StridedKernels strided{transpose, take};

}  // namespace skinny::SKINNY_SET
