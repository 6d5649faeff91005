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
    if (c < columns && columns > V) {  // the last ones with some that were copied already
      c = columns - V;
      transpose_block(from + c * from_stride + r, from_stride, to + r * to_stride + c, to_stride);
      continue;
    }
    for (; c < columns; ++c)
      for (size_t i = r; i < r + V; ++i) to[i * to_stride + c] = from[c * from_stride + i];
  }
  for (; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c) to[r * to_stride + c] = from[c * from_stride + r];
}

#if defined(__AVX512F__)
// Masks instead of loops for the ends of rows, the same for all rows.
template <size_t Step>
void take_some(const TakenRows& rows) {
  for (size_t x = 0; x < rows.width; x += V) {
    auto before = [&](size_t end) -> unsigned {
      return end <= x ? 0 : end < x + V ? (1u << (end - x)) - 1 : 0xFFFF;
    };
    constexpr uint64_t every = Step == 1 ? ~0ull : Step == 2 ? 0x5555555555555555 : 0x1111111111111111;
    uint64_t mask = _pdep_u64(before(rows.high) & ~before(rows.low), every);
    auto written = static_cast<__mmask16>(before(rows.width));
    const float* from = rows.from + Step * x;
    float* to = rows.to + x;
    auto read = [&](int i) {
      return Vec(_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16 * i), from + i * V));
    };
    for (size_t y = 0; y < rows.count; ++y, from += rows.from_stride, to += rows.to_stride) {
      Vec v = read(0);
      if constexpr (Step > 1) v = alternate<0>(v, read(1));
      if constexpr (Step > 2) v = alternate<0>(v, alternate<0>(read(2), read(3)));
      _mm512_mask_storeu_ps(to, written, v);
    }
  }
}

// Long rows are read one after the other, so that the processor prefetches them.
template <size_t Step>
void take_rows(const TakenRows& rows) {
  if (rows.width <= 4 * V) return take_some<Step>(rows);
  TakenRows one = rows;
  one.count = 1;
  for (size_t y = 0; y < rows.count; ++y) {
    take_some<Step>(one);
    one.from += rows.from_stride;
    one.to += rows.to_stride;
  }
}
#else
template <size_t Step>
void take_rows(const TakenRows& rows) {
  const float* from = rows.from;
  float* to = rows.to;
  for (size_t y = 0; y < rows.count; ++y, from += rows.from_stride, to += rows.to_stride) {
    size_t x = 0;
    for (; x < rows.low; ++x) to[x] = 0;
    auto two = [&](size_t at) { return alternate<0>(load(from + at), load(from + at + V)); };
    if constexpr (Step == 1)
      for (; x + V <= rows.high; x += V) store(to + x, load(from + x));
    // Not the last entry: after it there need not be another float.
    if constexpr (Step == 2)
      for (; x + V < rows.high; x += V) store(to + x, two(2 * x));
    if constexpr (Step == 4)
      for (; x + V < rows.high; x += V)
        store(to + x, alternate<0>(two(4 * x), two(4 * x + 2 * V)));
    for (; x < rows.high; ++x) to[x] = from[Step * x];
    for (; x < rows.width; ++x) to[x] = 0;
  }
}
#endif

void take_any(const TakenRows& rows) {
  const float* from = rows.from;
  float* to = rows.to;
  for (size_t y = 0; y < rows.count; ++y, from += rows.from_stride, to += rows.to_stride) {
    for (size_t x = 0; x < rows.low; ++x) to[x] = 0;
    for (size_t x = rows.low; x < rows.high; ++x) to[x] = from[rows.step * x];
    for (size_t x = rows.high; x < rows.width; ++x) to[x] = 0;
  }
}

void take(const TakenRows& rows) {
  auto run = rows.step == 1   ? take_rows<1>
             : rows.step == 2 ? take_rows<2>
             : rows.step == 4 ? take_rows<4>
                              : take_any;
  run(rows);
}

}  // namespace

const StridedKernels strided{transpose, take};

}  // namespace skinny::SKINNY_SET
