// Fully connected layers in int8, of few rows: mask and values of each output.
#include "runtime/int8.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr size_t ahead = 1024;  // bytes: values are prefetched across pages

inline size_t bits(uint64_t word) { return static_cast<size_t>(__builtin_popcountll(word)); }

#if defined(__AVX512F__)
__attribute__((target("avx512vnni,avx512vbmi2"))) void dot_rows_vnni(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride,
                               size_t vectors, int32_t* sums) {
  for (size_t first = 0; first < vectors; first += 4) {
    size_t count = vectors - first < 4 ? vectors - first : 4;
    __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                      _mm512_setzero_si512()};
    const int8_t* values = row.values;
    for (size_t w = 0; w < words; ++w) {
      uint64_t word = row.mask[w];
      __builtin_prefetch(values + ahead);
      __m512i weights = _mm512_maskz_expand_epi8(word, _mm512_loadu_si512(values));
      values += bits(word);
      const uint8_t* at = x + first * x_stride + 64 * w;
      if (count == 1) {
        sum[w % 2] = _mm512_dpbusd_epi32(sum[w % 2], _mm512_loadu_si512(at), weights);
        continue;
      }
      for (size_t i = 0; i < count; ++i)
        sum[i] = _mm512_dpbusd_epi32(sum[i], _mm512_loadu_si512(at + i * x_stride), weights);
    }
    if (count == 1) sum[0] = _mm512_add_epi32(sum[0], sum[1]);
    for (size_t i = 0; i < count; ++i) sums[first + i] = _mm512_reduce_add_epi32(sum[i]);
  }
}
#endif

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
#endif

#if defined(__AVX2__)
inline __m128i half_load(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}

void dot_rows(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride, size_t vectors,
              int32_t* sums) {
  for (size_t first = 0; first < vectors; first += 4) {
    size_t count = vectors - first < 4 ? vectors - first : 4;
    __m256i sum[4] = {};
    const int8_t* values = row.values;
    for (size_t w = 0; w < words; ++w) {
      uint64_t word = row.mask[w];
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
    for (size_t i = 0; i < count; ++i) {
      __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum[i]),
                                   _mm256_extracti128_si256(sum[i], 1));
      half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
      half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
      sums[first + i] = _mm_cvtsi128_si32(half);
    }
  }
}
#else
void dot_rows(const Int8Row& row, size_t words, const uint8_t* x, size_t x_stride, size_t vectors,
              int32_t* sums) {
  for (size_t i = 0; i < vectors; ++i) sums[i] = 0;
  const int8_t* values = row.values;
  for (size_t w = 0; w < words; ++w) {
    int8_t weights[64];
    uint64_t word = row.mask[w];
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

}  // namespace

const Int8Dot int8_dot{dot_rows};
#if defined(__AVX512F__)
const Int8Dot int8_dot_vnni{dot_rows_vnni};
#endif

}  // namespace skinny::SKINNY_SET
