// Weights in int8 as bits and values: fully connected layers of few rows, and quads for others.
#include "runtime/int8.h"

#include <cstring>

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr size_t ahead = 1024;  // bytes: values are prefetched across pages

inline size_t bits(uint64_t word) { return static_cast<size_t>(__builtin_popcountll(word)); }

#if defined(__AVX2__)
// For each of 256 masks, which of the next eight values each byte takes; 128: none.
struct Spread {
  alignas(8) uint8_t byte[256][8];
  constexpr Spread() : byte() {
    for (int mask = 0; mask < 256; ++mask)
      for (int i = 0, next = 0; i < 8; ++i)
        byte[mask][i] = static_cast<uint8_t>(mask >> i & 1 ? next++ : 128);
  }
};
constexpr Spread spread;

inline __m128i half_load(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}
#endif

// Each next four bits to the next quad of 64 columns.
#if defined(__AVX2__)
// Not by `pdep`, which takes some processors a hundred cycles.
inline uint64_t spread_quads(uint64_t packed, unsigned quads) {
  __m128i both = _mm_cvtsi64_si128(static_cast<long long>(packed)), four = _mm_set1_epi8(15);
  __m128i apart = _mm_unpacklo_epi8(_mm_and_si128(both, four),
                                    _mm_and_si128(_mm_srli_epi64(both, 4), four));
  __m128i second = _mm_set1_epi8(static_cast<char>(bits(quads & 255)));
  __m128i from = _mm_unpacklo_epi64(half_load(spread.byte[quads & 255]),
                                    _mm_add_epi8(half_load(spread.byte[quads >> 8]), second));
  __m128i placed = _mm_maddubs_epi16(_mm_shuffle_epi8(apart, from), _mm_set1_epi16(0x1001));
  return static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_packus_epi16(placed, placed)));
}
#else
inline uint64_t spread_quads(uint64_t packed, unsigned quads) {
  uint64_t made = 0;
  for (int at = 0; quads; at += 4, quads >>= 1)
    if (quads & 1) {
      made |= (packed & 15) << at;
      packed >>= 4;
    }
  return made;
}
#endif

// The masks of the next 256 columns; returns how many bytes of bits these take.
inline size_t next_masks(uint64_t quads, const uint8_t* from, uint64_t* masks) {
  size_t at = 0;  // of the next four bits
  for (int i = 0; i < 4; ++i, quads >>= 16) {
    uint64_t packed;
    std::memcpy(&packed, from + at / 2, sizeof packed);
    size_t shift = at % 2 * 4;
    packed = packed >> shift | static_cast<uint64_t>(from[at / 2 + 8]) << 60 << (4 - shift);
    masks[i] = spread_quads(packed, quads & 0xFFFF);
    at += bits(quads & 0xFFFF);
  }
  return (at + 1) / 2;
}

#if defined(__AVX512F__)
#define SKINNY_VNNI __attribute__((target("avx512vnni,avx512vbmi2")))

SKINNY_VNNI inline size_t next_masks_vnni(uint64_t quads, const uint8_t* from, uint64_t* masks) {
  __m512i pairs = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  __m512i apart = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi16(pairs, 4)),
                                   _mm512_set1_epi8(15));
  __m512i placed = _mm512_maddubs_epi16(_mm512_maskz_expand_epi8(quads, apart),
                                        _mm512_set1_epi16(0x1001));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(masks), _mm512_cvtepi16_epi8(placed));
  return (bits(quads) + 1) / 2;
}

// Products with `count` rows of bytes, which have a sum each; a single one has four.
template <size_t count>
SKINNY_VNNI inline void dot_vnni(const Int8Row& row, size_t words, const uint8_t* x,
                                 size_t x_stride, int32_t* sums) {
  constexpr size_t all = count == 1 ? 4 : count;
  __m512i sum[all];
  for (__m512i& one : sum) one = _mm512_setzero_si512();
  const uint8_t* next = row.bits;
  const int8_t* values = row.values;
  uint64_t masks[4];
  auto add = [&](size_t w, size_t at) SKINNY_VNNI __attribute__((always_inline)) {
    __builtin_prefetch(values + ahead);
    __m512i weights = _mm512_maskz_expand_epi8(masks[at], _mm512_loadu_si512(values));
    values += bits(masks[at]);
    for (size_t i = 0; i < count; ++i) {
      __m512i& to = sum[count == 1 ? at : i];
      to = _mm512_dpbusd_epi32(to, _mm512_loadu_si512(x + i * x_stride + 64 * w), weights);
    }
  };
  size_t w = 0;
  for (; w + 4 <= words; w += 4) {
    next += next_masks_vnni(row.quads[w / 4], next, masks);
    add(w, 0), add(w + 1, 1), add(w + 2, 2), add(w + 3, 3);
  }
  if (w < words) next_masks_vnni(row.quads[w / 4], next, masks);
  if (w < words) add(w, 0);
  if (w + 1 < words) add(w + 1, 1);
  if (w + 2 < words) add(w + 2, 2);
  if (count == 1)
    for (size_t i = 1; i < all; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  for (size_t i = 0; i < count; ++i) sums[i] = _mm512_reduce_add_epi32(sum[i]);
}

SKINNY_VNNI void dot_rows_vnni(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride,
                               size_t vectors, int32_t* sums) {
  size_t i = 0;
  for (; i + 4 <= vectors; i += 4) dot_vnni<4>(row, words, x + i * x_stride, x_stride, sums + i);
  if (vectors - i >= 2) dot_vnni<2>(row, words, x + i * x_stride, x_stride, sums + i), i += 2;
  if (i < vectors) dot_vnni<1>(row, words, x + i * x_stride, x_stride, sums + i);
}

SKINNY_VNNI void expand_vnni(const uint8_t* from, const int8_t* values, size_t count,
                             int32_t* quads) {
  for (size_t i = 0; i < count; i += 16) {
    uint64_t mask;
    std::memcpy(&mask, from + i / 2, sizeof mask);
    _mm512_storeu_si512(quads + i, _mm512_maskz_expand_epi8(mask, _mm512_loadu_si512(values)));
    values += bits(mask);
  }
}
#endif

#if defined(__AVX2__)
// For each of 256 masks, which of eight cells are kept, in order.
struct Kept {
  alignas(8) uint8_t cell[256][8];
  constexpr Kept() : cell() {
    for (int mask = 0; mask < 256; ++mask)
      for (int i = 0, next = 0; i < 8; ++i)
        if (mask >> i & 1) cell[mask][next++] = static_cast<uint8_t>(i);
  }
};
constexpr Kept kept;

inline __m128i load_16(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

inline int32_t total(__m256i sum) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return _mm_cvtsi128_si32(half);
}

inline uint8_t* keep_cells(unsigned mask, const uint8_t* x, uint8_t* to) {
  __m256i order = _mm256_cvtepu8_epi32(half_load(kept.cell[mask]));
  __m256i cells = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(cells, order));
  return to + 4 * bits(mask);
}

// The quads of a row of bytes that have a weight, one after the other: a byte of the row's bits for
// each two, as they are stored. Returns how many bytes of bits.
inline size_t keep_quads(const uint64_t* quads, size_t words, const uint8_t* x, uint8_t* to) {
  const uint8_t* begin = to;
  for (size_t word = 0; word < words; word += 4, x += 256) {
    uint64_t left = *quads++;
    size_t odd = bits(left) % 2;
    if (word + 4 <= words)
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) to = keep_cells(left >> 8 * i & 255, x + 32 * i, to);
    else
      for (int i = 0; left; ++i, left >>= 8) to = keep_cells(left & 255, x + 32 * i, to);
    to += 4 * odd;  // bits begin with a byte every 256 columns
  }
  return static_cast<size_t>(to - begin) / 8;
}

// Some quads at a time, so that loads do not meet stores that are still under way.
int32_t dot_row(const Int8Row& row, size_t words, const uint8_t* x) {
  constexpr size_t at_once = 64;  // words of 64 columns
  uint8_t inputs[64 * at_once + 32];
  __m256i sums[2] = {};
  const uint8_t* next = row.bits;
  const int8_t* values = row.values;
  auto add = [&](__m256i& sum, unsigned first, unsigned second, const uint8_t* from) {
    __m128i low = _mm_shuffle_epi8(half_load(values), half_load(spread.byte[first]));
    values += bits(first);
    __m128i high = _mm_shuffle_epi8(half_load(values), half_load(spread.byte[second]));
    values += bits(second);
    __m128i weights = _mm_unpacklo_epi64(low, high);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_cvtepu8_epi16(load_16(from)),
                                                  _mm256_cvtepi8_epi16(weights)));
  };
  for (size_t first = 0; first < words; first += at_once) {
    size_t some = words - first < at_once ? words - first : at_once;
    size_t count = keep_quads(row.quads + first / 4, some, x + 64 * first, inputs);
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
      __builtin_prefetch(values + ahead);
      add(sums[0], next[i], next[i + 1], inputs + 8 * i);
      add(sums[1], next[i + 2], next[i + 3], inputs + 8 * i + 16);
    }
    if (i + 2 <= count) add(sums[0], next[i], next[i + 1], inputs + 8 * i), i += 2;
    if (i < count) add(sums[1], next[i], 0, inputs + 8 * i);
    next += count;
  }
  return total(_mm256_add_epi32(sums[0], sums[1]));
}

void dot_rows(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride, size_t vectors,
              int32_t* sums) {
  if (vectors == 1) {
    *sums = dot_row(row, words, x);
    return;
  }
  for (size_t first = 0; first < vectors; first += 4) {
    size_t count = vectors - first < 4 ? vectors - first : 4;
    __m256i sum[4] = {};
    const uint8_t* next = row.bits;
    const int8_t* values = row.values;
    uint64_t masks[4];
    for (size_t w = 0; w < words; ++w) {
      if (w % 4 == 0) next += next_masks(row.quads[w / 4], next, masks);
      uint64_t word = masks[w % 4];
      __builtin_prefetch(values + ahead);
      for (size_t at = 64 * w; word; at += 16, word >>= 16) {
        __m128i low = _mm_shuffle_epi8(half_load(values), half_load(spread.byte[word & 255]));
        values += bits(word & 255);
        __m128i high = _mm_shuffle_epi8(half_load(values), half_load(spread.byte[word >> 8 & 255]));
        values += bits(word & 0xFF00);
        __m256i weights = _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(low, high));
        for (size_t i = 0; i < count; ++i) {
          auto from = reinterpret_cast<const __m128i*>(x + (first + i) * x_stride + at);
          __m256i inputs = _mm256_cvtepu8_epi16(_mm_loadu_si128(from));
          sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(inputs, weights));
        }
      }
    }
    for (size_t i = 0; i < count; ++i) sums[first + i] = total(sum[i]);
  }
}
#else
void dot_rows(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride, size_t vectors,
              int32_t* sums) {
  for (size_t i = 0; i < vectors; ++i) sums[i] = 0;
  const uint8_t* next = row.bits;
  const int8_t* values = row.values;
  uint64_t masks[4];
  for (size_t w = 0; w < words; ++w) {
    int8_t weights[64];
    if (w % 4 == 0) next += next_masks(row.quads[w / 4], next, masks);
    uint64_t word = masks[w % 4];
    for (int at = 0; at < 64; ++at, word >>= 1)
      weights[at] = static_cast<int8_t>(word & 1 ? *values++ : 0);
    for (size_t i = 0; i < vectors; ++i) {
      const uint8_t* at = x + i * x_stride + 64 * w;
      int32_t sum = 0;
      for (int j = 0; j < 64; ++j) sum += at[j] * weights[j];
      sums[i] += sum;
    }
  }
}
#endif

void expand(const uint8_t* from, const int8_t* values, size_t count, int32_t* quads) {
  for (size_t i = 0; i < count; ++i) {
    int8_t quad[4] = {};
    for (size_t j = 0; j < 4; ++j)
      if (from[i / 2] >> (i % 2 * 4 + j) & 1) quad[j] = *values++;
    std::memcpy(quads + i, quad, sizeof quad);
  }
}

}  // namespace

const Int8Dot int8_dot{dot_rows, expand};
#if defined(__AVX512F__)
const Int8Dot int8_dot_vnni{dot_rows_vnni, expand_vnni};
#endif

}  // namespace skinny::SKINNY_SET
