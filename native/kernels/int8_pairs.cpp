#include "runtime/int8_pairs_kernels.h"

#include "vector.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
namespace skinny::SKINNY_SET {
namespace {

inline __m256i load_pixels(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void store_pixels(void* to, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}

// Keeps the compiler from adding in another order, for which there are too few registers.
inline void keep(__m256i& value) { asm volatile("" : "+x"(value)); }

void unpack(const float* cells, size_t count, uint16_t* planes, size_t length) {
  // the low halves of a lane's cells, then the high ones
  const __m256i halves = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                          0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m256i middle = _mm256_set1_epi8(-128), ones = _mm256_set1_epi8(-1);
  for (size_t i = 0; i < count; i += 16) {
    __m256i a = _mm256_shuffle_epi8(_mm256_xor_si256(load_pixels(cells + i), middle), halves);
    __m256i b = _mm256_shuffle_epi8(_mm256_xor_si256(load_pixels(cells + i + 8), middle), halves);
    __m256i low = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b), 0xD8);
    __m256i high = _mm256_permute4x64_epi64(_mm256_unpackhi_epi64(a, b), 0xD8);
    store_pixels(planes + i, low);
    store_pixels(planes + length + i, _mm256_xor_si256(low, ones));
    store_pixels(planes + 2 * length + i, high);
    store_pixels(planes + 3 * length + i, _mm256_xor_si256(high, ones));
  }
}

template <int N, int Length>
inline const Int8Pair* add_segments(const Int8Pair* pair, size_t segments, const uint16_t* planes,
                                    size_t apart, __m256i* even, __m256i* odd) {
  const __m256i even_ones = _mm256_set1_epi32(1);
  for (size_t segment = 0; segment < segments; ++segment, pair += Length) {
    __m256i sum[N];
#pragma GCC unroll 8
    for (int i = 0; i < Length; ++i) {
      int16_t both;
      memcpy(&both, pair[i].weights, sizeof both);
      const __m256i weights = _mm256_set1_epi16(both);
      const uint16_t* at = planes + pair[i].offset;
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) {
        __m256i product =
            _mm256_maddubs_epi16(weights, load_pixels(at + static_cast<size_t>(n) * apart));
        sum[n] = i ? _mm256_add_epi16(sum[n], product) : product;
        keep(sum[n]);
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      even[n] = _mm256_add_epi32(even[n], _mm256_madd_epi16(sum[n], even_ones));
      odd[n] = _mm256_add_epi32(odd[n], _mm256_srai_epi32(sum[n], 16));
    }
  }
  return pair;
}

// A row's sums: of even and odd pixels, interleaved at the end.
template <int N, int Length>
inline const Int8Pair* sum_row(const Int8Pair* pair, const Int8PairRow& row, const uint16_t* planes,
                               size_t apart, const int32_t* start, int32_t* to, size_t stride) {
  __m256i even[N], odd[N];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) even[n] = odd[n] = _mm256_set1_epi32(start ? start[row.row] : 0);
  pair = add_segments<N, Length>(pair, row.whole, planes, apart, even, odd);
  if constexpr (Length > 1)
    pair = add_segments<N, Length - 1>(pair, row.shorter, planes, apart, even, odd);
  to += row.row * V;
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n, to += 2 * stride) {
    __m256i a = _mm256_unpacklo_epi32(even[n], odd[n]), b = _mm256_unpackhi_epi32(even[n], odd[n]);
    __m256i first = _mm256_permute2x128_si256(a, b, 0x20);
    __m256i second = _mm256_permute2x128_si256(a, b, 0x31);
    if (!start) {
      first = _mm256_add_epi32(first, load_pixels(to));
      second = _mm256_add_epi32(second, load_pixels(to + stride));
    }
    store_pixels(to, first);
    store_pixels(to + stride, second);
  }
  return pair;
}

using SumRows = const Int8Pair* (*)(const Int8PairRow* rows, size_t count, const Int8Pair* pairs,
                                    const uint16_t* planes, size_t apart, const int32_t* start,
                                    int32_t* sums, size_t stride);

template <int N, int Length, bool Contiguous>
const Int8Pair* sum_rows(const Int8PairRow* rows, size_t count, const Int8Pair* pairs,
                         const uint16_t* planes, size_t apart, const int32_t* start, int32_t* sums,
                         size_t stride) {
  if (Contiguous) apart = pixels_at_once;
  for (const Int8PairRow* row = rows; row != rows + count; ++row)
    pairs = sum_row<N, Length>(pairs, *row, planes, apart, start, sums, stride);
  return pairs;
}

template <int N, bool Contiguous>
void sum_runs(const Int8PairRun* runs, size_t count, const Int8PairRow* rows, const Int8Pair* pairs,
              const uint16_t* planes, size_t apart, const int32_t* start, int32_t* sums,
              size_t stride) {
  static constexpr SumRows by_length[max_segment] = {
      sum_rows<N, 1, Contiguous>, sum_rows<N, 2, Contiguous>, sum_rows<N, 3, Contiguous>,
      sum_rows<N, 4, Contiguous>, sum_rows<N, 5, Contiguous>, sum_rows<N, 6, Contiguous>,
      sum_rows<N, 7, Contiguous>, sum_rows<N, 8, Contiguous>};
  for (const Int8PairRun* run = runs; run != runs + count; rows += run->rows, ++run)
    pairs = by_length[run->length - 1](rows, run->rows, pairs, planes, apart, start, sums, stride);
}

void sums(const Int8PairRun* runs, size_t count, const Int8PairRow* rows, const Int8Pair* pairs,
          const uint16_t* planes, size_t vectors, size_t apart, const int32_t* start, int32_t* to,
          size_t all_rows) {
  using Sum = decltype(&sum_runs<1, true>);
  static constexpr Sum contiguous[strip_vectors] = {sum_runs<1, true>, sum_runs<2, true>,
                                                    sum_runs<3, true>, sum_runs<4, true>};
  static constexpr Sum strided[strip_vectors] = {sum_runs<1, true>, sum_runs<2, false>,
                                                 sum_runs<3, false>, sum_runs<4, false>};
  auto run = (apart == pixels_at_once ? contiguous : strided)[vectors - 1];
  run(runs, count, rows, pairs, planes, apart, start, to, all_rows * V);
}

}  // namespace

const Int8PairKernels int8_pairs{unpack, sums};

}  // namespace skinny::SKINNY_SET
#endif
