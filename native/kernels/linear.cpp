#include "runtime/linear.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr size_t rows_at_once = 256;  // whose sums for many images stay in the second-level cache

inline float total(Vec v) {
  float lane[V];
  store(lane, v);
  for (int width = V / 2; width; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

// The dot product of one packed row with x: a vector of columns at a time, the values expanded to the
// lanes of their bits. The values are prefetched: the processor's own prefetcher stops at
// page boundaries.
constexpr size_t ahead = 1024;  // floats

#if defined(__AVX512F__)

float mask_row(const uint64_t* mask, size_t words, const float* values, const float* x) {
  __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                   _mm512_setzero_ps()};
  for (size_t w = 0; w < words; ++w, x += 64) {
    uint64_t word = mask[w];
    __builtin_prefetch(values + ahead);
    for (int i = 0; i < 4; ++i, word >>= 16) {
      __mmask16 bits = static_cast<__mmask16>(word);
      sum[i] = _mm512_fmadd_ps(_mm512_maskz_expand_ps(bits, _mm512_loadu_ps(values)),
                               _mm512_loadu_ps(x + 16 * i), sum[i]);
      values += __builtin_popcount(bits);
    }
  }
  return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

#elif defined(__AVX2__)

// For each of 256 masks, the index of the value each lane takes, of the next eight; the sign bit
// marks a lane that takes none.
struct Spread {
  alignas(32) int32_t lane[256][8];
  constexpr Spread() : lane() {
    for (int bits = 0; bits < 256; ++bits)
      for (int i = 0, next = 0; i < 8; ++i) lane[bits][i] = bits >> i & 1 ? next++ : INT32_MIN;
  }
};
constexpr Spread spread;

float mask_row(const uint64_t* mask, size_t words, const float* values, const float* x) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                   _mm256_setzero_ps()};
  for (size_t w = 0; w < words; ++w, x += 64) {
    uint64_t word = mask[w];
    __builtin_prefetch(values + ahead);
    for (int i = 0; i < 8; ++i, word >>= 8) {
      unsigned bits = static_cast<uint8_t>(word);
      __m256i lane = _mm256_load_si256(reinterpret_cast<const __m256i*>(spread.lane[bits]));
      __m256 value = _mm256_permutevar8x32_ps(_mm256_loadu_ps(values), lane);
      value = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_srai_epi32(lane, 31)), value);
      sum[i % 4] = _mm256_fmadd_ps(value, _mm256_loadu_ps(x + 8 * i), sum[i % 4]);
      values += __builtin_popcount(bits);
    }
  }
  return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

#elif defined(SKINNY_NEON)

// For each of 16 masks, which bytes of the next four values the bytes of each lane take; 255, of a
// lane that takes none, makes a zero.
struct Spread {
  alignas(16) uint8_t bytes[16][16];
  constexpr Spread() : bytes() {
    for (int bits = 0; bits < 16; ++bits)
      for (int i = 0, next = 0; i < 16; ++i) {
        bool taken = bits >> i / 4 & 1;
        bytes[bits][i] = static_cast<uint8_t>(taken ? next++ : 255);
      }
  }
};
constexpr Spread spread;

inline Vec expand(const float* values, uint64_t bits) {
  uint8x16_t four = vreinterpretq_u8_f32(vld1q_f32(values));
  return vreinterpretq_f32_u8(vqtbl1q_u8(four, vld1q_u8(spread.bytes[bits & 15])));
}

float mask_row(const uint64_t* mask, size_t words, const float* values, const float* x) {
  Vec sum[4] = {};
  for (size_t w = 0; w < words; ++w) {
    uint64_t word = mask[w];
    __builtin_prefetch(values + ahead);
    // The ones of each four bits, and of all bytes before each byte: so no address waits for the
    // one before it.
    uint64_t ones = word - (word >> 1 & 0x5555555555555555);
    ones = (ones & 0x3333333333333333) + (ones >> 2 & 0x3333333333333333);
    uint64_t until = ((ones + (ones >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101;
    uint64_t before = until << 8;
    for (int i = 0; i < 8; ++i, word >>= 8, ones >>= 8, before >>= 8, x += 8) {
      const float* next = values + (before & 255);
      sum[i % 2 * 2] += expand(next, word) * load(x);
      sum[i % 2 * 2 + 1] += expand(next + (ones & 15), word >> 4) * load(x + 4);
    }
    values += until >> 56;
  }
  return total((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

#endif

// The same bit by bit, without reading past the row's last value.
float mask_row_plain(const uint64_t* mask, size_t words, const float* values, const float* x) {
  float sum = 0;
  for (size_t w = 0; w < words; ++w, x += 64)
    for (uint64_t word = mask[w]; word; word &= word - 1)
      sum += *values++ * x[__builtin_ctzll(word)];
  return sum;
}

#if !defined(__AVX2__) && !defined(SKINNY_NEON)
constexpr auto mask_row = mask_row_plain;
#endif

void mask_one(const MaskRows& weights, size_t begin, size_t end, const float* x, const float* bias,
              float* y) {
  // A vector of values reads up to V past its row's last; after the last rows none are readable.
  size_t all = weights.first[weights.rows];
  for (size_t row = begin; row < end; ++row) {
    auto run = weights.first[row + 1] + V <= all ? mask_row : mask_row_plain;
    y[row] = bias[row] + run(weights.mask + row * weights.words, weights.words,
                             weights.values + weights.first[row], x);
  }
}

// N vectors of y for rows [begin, end): sums stay in registers over `panel` words of a row, whose
// inputs (64 features a word) stay in the first-level cache for all rows.
template <int N>
void mask_panel(const MaskRows& weights, size_t word, size_t panel, size_t begin, size_t end,
                const float* x, size_t n, const float* bias, float* y, uint64_t* cursor) {
  for (size_t row = begin; row < end; ++row) {
    float* out = y + row * n;
    const float* values = weights.values + cursor[row - begin];
    const float* next = values;
    Vec sum[N];
    for (int i = 0; i < N; ++i) sum[i] = word == 0 ? splat(bias[row]) : load(out + i * V);
    for (size_t w = word; w < word + panel; ++w)
      for (uint64_t bits = weights.mask[row * weights.words + w]; bits; bits &= bits - 1) {
        const float* at = x + (w * 64 + static_cast<size_t>(__builtin_ctzll(bits))) * n;
        Vec weight = splat(*next++);
        for (int i = 0; i < N; ++i) sum[i] += weight * load(at + i * V);
      }
    cursor[row - begin] += static_cast<uint64_t>(next - values);
    for (int i = 0; i < N; ++i) store(out + i * V, sum[i]);
  }
}

void mask_many(const MaskRows& weights, size_t begin, size_t end, const float* x, size_t n,
               const float* bias, float* y) {
  uint64_t cursor[rows_at_once];
  using Panel = void (*)(const MaskRows&, size_t, size_t, size_t, size_t, const float*, size_t,
                         const float*, float*, uint64_t*);
  constexpr Panel panels[] = {mask_panel<1>, mask_panel<2>, mask_panel<3>, mask_panel<4>,
                              mask_panel<5>, mask_panel<6>, mask_panel<7>, mask_panel<8>};
  for (size_t column = 0; column < n; column += 8 * V) {
    size_t vectors = (n - column) / V < 8 ? (n - column) / V : 8;
    size_t panel = 16 / vectors < 1 ? 1 : 16 / vectors;
    for (size_t row = begin; row < end; row += rows_at_once) {
      size_t stop = row + rows_at_once < end ? row + rows_at_once : end;
      memcpy(cursor, weights.first + row, (stop - row) * sizeof(uint64_t));
      for (size_t word = 0; word < weights.words; word += panel) {
        size_t count = word + panel < weights.words ? panel : weights.words - word;
        panels[vectors - 1](weights, word, count, row, stop, x + column, n, bias, y + column,
                            cursor);
      }
    }
  }
}

// With so few non-zeros, vectors of neighbouring columns would be mostly zeros: gather the inputs
// instead, lane by lane, which is faster than the gathers of AVX2 and AVX-512 with prefix sums in
// vectors. Eight lanes at most: filling sixteen takes longer than two vectors of eight.
constexpr size_t deltas_ahead = 512;  // that are prefetched, and as many values
constexpr int gathered = V < 8 ? V : 8;
typedef float Gathered __attribute__((vector_size(gathered * sizeof(float))));

inline void multiply_gathered(const uint8_t* delta, const float* value, const float* x,
                              size_t& column, Gathered& sum) {
  Gathered weights, inputs;
  memcpy(&weights, value, sizeof weights);
  for (int i = 0; i < gathered; ++i) inputs[i] = x[column += delta[i]];
  sum += weights * inputs;
}

void delta_one(const DeltaRows& weights, size_t begin, size_t end, const float* x,
               const float* bias, float* y) {
  for (size_t row = begin; row < end; ++row) {
    const uint8_t* delta = weights.deltas + weights.first[row];
    const float* value = weights.values + weights.first[row];
    size_t left = weights.first[row + 1] - weights.first[row], column = 0;
    Gathered sum{};
    for (; left >= gathered; left -= gathered, delta += gathered, value += gathered) {
      __builtin_prefetch(value + deltas_ahead);
      __builtin_prefetch(delta + deltas_ahead);
      multiply_gathered(delta, value, x, column, sum);
    }
    float rest = 0;
    for (; left; --left) rest += *value++ * x[column += *delta++];
    for (int width = gathered / 2; width; width /= 2)
      for (int i = 0; i < width; ++i) sum[i] += sum[i + width];
    y[row] = bias[row] + (sum[0] + rest);
  }
}

template <int N>
void delta_panel(const DeltaRows& weights, size_t limit, bool first, size_t begin, size_t end,
                const float* x, size_t n, const float* bias, float* y, uint64_t* cursor,
                size_t* column) {
  for (size_t row = begin; row < end; ++row) {
    float* out = y + row * n;
    uint64_t at = cursor[row - begin], stop = weights.first[row + 1];
    size_t c = column[row - begin];
    Vec sum[N];
    for (int i = 0; i < N; ++i) sum[i] = first ? splat(bias[row]) : load(out + i * V);
    for (; at < stop; ++at) {
      size_t next = c + weights.deltas[at];
      if (next >= limit) break;
      c = next;
      Vec weight = splat(weights.values[at]);
      for (int i = 0; i < N; ++i) sum[i] += weight * load(x + c * n + i * V);
    }
    cursor[row - begin] = at;
    column[row - begin] = c;
    for (int i = 0; i < N; ++i) store(out + i * V, sum[i]);
  }
}

void delta_many(const DeltaRows& weights, size_t columns, size_t begin, size_t end, const float* x,
               size_t n, const float* bias, float* y) {
  uint64_t cursor[rows_at_once];
  size_t column[rows_at_once];
  using Panel = void (*)(const DeltaRows&, size_t, bool, size_t, size_t, const float*, size_t,
                         const float*, float*, uint64_t*, size_t*);
  constexpr Panel panels[] = {delta_panel<1>, delta_panel<2>, delta_panel<3>, delta_panel<4>,
                              delta_panel<5>, delta_panel<6>, delta_panel<7>, delta_panel<8>};
  for (size_t lane = 0; lane < n; lane += 8 * V) {
    size_t vectors = (n - lane) / V < 8 ? (n - lane) / V : 8;
    size_t panel = 2048 / vectors;  // features, whose inputs stay in the second-level cache
    for (size_t row = begin; row < end; row += rows_at_once) {
      size_t stop = row + rows_at_once < end ? row + rows_at_once : end;
      memcpy(cursor, weights.first + row, (stop - row) * sizeof(uint64_t));
      memset(column, 0, sizeof column);
      for (size_t c = 0; c < columns; c += panel)
        panels[vectors - 1](weights, c + panel < columns ? c + panel : columns, c == 0, row, stop,
                            x + lane, n, bias, y + lane, cursor, column);
    }
  }
}

void dense_one(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
               const float* bias, float* y) {
  for (size_t row = begin; row < end; ++row) {
    const float* w = weights + row * cols;
    Vec sum[4] = {};
    size_t c = 0;
    for (; c + 4 * V <= cols; c += 4 * V)
      for (int i = 0; i < 4; ++i) sum[i] += load(w + c + i * V) * load(x + c + i * V);
    float rest = 0;
    for (; c < cols; ++c) rest += w[c] * x[c];
    y[row] = bias[row] + (total((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest);
  }
}

template <int M, int N>
void dense_panel(const float* weights, size_t cols, size_t first, size_t last, const float* x,
                 size_t n, const float* bias, float* y) {
  Vec sum[M][N];
  for (int m = 0; m < M; ++m)
    for (int i = 0; i < N; ++i) sum[m][i] = first == 0 ? splat(bias[m]) : load(y + m * n + i * V);
  for (size_t c = first; c < last; ++c) {
    Vec value[N];
    for (int i = 0; i < N; ++i) value[i] = load(x + c * n + i * V);
    for (int m = 0; m < M; ++m) {
      Vec weight = splat(weights[m * cols + c]);
      for (int i = 0; i < N; ++i) sum[m][i] += weight * value[i];
    }
  }
  for (int m = 0; m < M; ++m)
    for (int i = 0; i < N; ++i) store(y + m * n + i * V, sum[m][i]);
}

template <int N>
void dense_columns(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                   size_t n, const float* bias, float* y) {
  constexpr size_t panel = 128;  // 128 features x 4 vectors stay in the first-level cache
  constexpr int M = 3;
  for (size_t first = 0; first < cols; first += panel) {
    size_t last = first + panel < cols ? first + panel : cols;
    size_t row = begin;
    for (; row + M <= end; row += M)
      dense_panel<M, N>(weights + row * cols, cols, first, last, x, n, bias + row, y + row * n);
    for (; row < end; ++row)
      dense_panel<1, N>(weights + row * cols, cols, first, last, x, n, bias + row, y + row * n);
  }
}

void dense_many(const float* weights, size_t cols, size_t begin, size_t end, const float* x,
                size_t n, const float* bias, float* y) {
  for (size_t column = 0; column < n;) {
    size_t vectors = (n - column) / V;
    auto run = vectors >= 4   ? dense_columns<4>
               : vectors == 3 ? dense_columns<3>
               : vectors == 2 ? dense_columns<2>
                              : dense_columns<1>;
    run(weights, cols, begin, end, x + column, n, bias, y + column);
    column += (vectors < 4 ? vectors : 4) * V;
  }
}

}  // namespace

const LinearKernels linear{mask_one, mask_many, delta_one, delta_many, dense_one, dense_many};

}  // namespace skinny::SKINNY_SET
