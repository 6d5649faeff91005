#include "runtime/tile.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

template <int N>
inline void begin(Vec (&sum)[N], const float* out, size_t row, const Edge& edge) {
  for (int i = 0; i < N; ++i) sum[i] = edge.bias ? splat(edge.bias[row]) : load(out + i * V);
}

template <int N>
inline void finish(Vec (&sum)[N], float* out, const Edge& edge) {
  if (edge.last) {
    Vec low = splat(edge.low), high = splat(edge.high);
    for (int i = 0; i < N; ++i) sum[i] = at_most(at_least(sum[i], low), high);
  }
  for (int i = 0; i < N; ++i) store(out + i * V, sum[i]);
}

// The address of a tap is looked up two taps before it is used, runs notwithstanding: where the
// length of a run was not foreseen, the next one's first loads need not wait for it.
template <class Number, int R, int C>
void sparse(const TileInput& in, const SparseTaps<Number>& taps, float* out, size_t stride,
            const Edge& edge) {
  const float* data = in.data;
  const int32_t* offsets = in.offsets;
  ptrdiff_t row_stride = in.row_stride;
  const float* value = taps.values;
  const Number* number = taps.numbers;
  const float* next = data + offsets[*number++];
  size_t after = *number++;
  for (const Run* run = taps.runs; run != taps.runs + taps.run_count; ++run) {
    float* to = out + run->row * stride;
    Vec sum[R * C];
    begin(sum, to, run->row, edge);
    for (const float* last = value + run->taps; value != last; ++value) {
      const float* at = next;
      next = data + offsets[after];
      after = *number++;
      Vec weight = splat(*value);
      for (int r = 0; r < R; ++r, at += row_stride)
        for (int c = 0; c < C; ++c) sum[r * C + c] += weight * load(at + c * V);
    }
    finish(sum, to, edge);
  }
}

// For each of 256 masks, the numbers of its ones; the rest does not matter.
struct Numbers {
  uint8_t of[256][8];
  constexpr Numbers() : of() {
    for (int mask = 0; mask < 256; ++mask)
      for (int bit = 0, next = 0; bit < 8; ++bit)
        if (mask >> bit & 1) of[mask][next++] = static_cast<uint8_t>(bit);
  }
};
constexpr Numbers ones;

// Appends the numbers of the ones in a mask.
inline uint8_t* expand_bytes(const uint8_t* mask, size_t bytes, uint8_t* next) {
  uint64_t first = 0;  // in each of its bytes, the number of a byte's lowest bit: at most 248
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes; ++i, first += 0x0808080808080808) {
    uint64_t found;
    memcpy(&found, ones.of[mask[i]], sizeof found);
    found += first;
    memcpy(next, &found, sizeof found);
    next += __builtin_popcount(mask[i]);
  }
  return next;
}

#if defined(__AVX512F__)
struct From0To63 {
  alignas(64) uint8_t number[64];
  constexpr From0To63() : number() {
    for (int i = 0; i < 64; ++i) number[i] = static_cast<uint8_t>(i);
  }
};
constexpr From0To63 from_0_to_63;

// The same by eight bytes, which not every processor with AVX-512 can.
__attribute__((target("avx512vbmi2"))) uint8_t* expand_words(const uint8_t* mask, size_t bytes,
                                                             uint8_t* next) {
  __m512i number = _mm512_load_si512(from_0_to_63.number);
  for (size_t i = 0; i < bytes; i += 8, number = _mm512_add_epi8(number, _mm512_set1_epi8(64))) {
    uint64_t bits;
    memcpy(&bits, mask + i, sizeof bits);
    if (bytes - i < 8) bits = _bzhi_u64(bits, static_cast<unsigned>(8 * (bytes - i)));
    _mm512_storeu_si512(next, _mm512_maskz_compress_epi8(bits, number));
    next += __builtin_popcountll(bits);
  }
  return next;
}
#endif

size_t expand(const uint8_t* masks, size_t rows, size_t bytes, uint8_t* numbers) {
  uint8_t* next = numbers;
  auto one = expand_bytes;
#if defined(__AVX512F__)
  if (__builtin_cpu_supports("avx512vbmi2")) one = expand_words;
#endif
  for (size_t row = 0; row < rows; ++row) next = one(masks + row * bytes, bytes, next);
  memset(next, 0, tap_slack);
  return static_cast<size_t>(next - numbers);
}

#if defined(__AVX512F__)
constexpr int M = 6;  // 6 x 4 sums in 32 registers
#else
constexpr int M = 3;  // 3 x 4 sums in 16 registers
#endif

template <int N>
void dense_part(const TileInput& in, const ptrdiff_t* at, const float* weights, size_t taps,
                size_t row, size_t rows, float* out, size_t stride, const Edge& edge) {
  Vec sum[M][N];
  for (size_t m = 0; m < M; ++m)
    if (m < rows)
      begin(sum[m], out + m * stride, row + m, edge);
    else
      for (int i = 0; i < N; ++i) sum[m][i] = Vec{};
  for (size_t t = 0; t < taps; ++t, weights += M) {
    Vec value[N];
    for (int i = 0; i < N; ++i) value[i] = load(in.data + in.offsets[t] + at[i]);
    for (int m = 0; m < M; ++m) {
      Vec weight = splat(weights[m]);
      for (int i = 0; i < N; ++i) sum[m][i] += weight * value[i];
    }
  }
  for (size_t m = 0; m < M && m < rows; ++m) finish(sum[m], out + m * stride, edge);
}

void dense(const TileInput& in, int rows, int vectors, const DenseTaps& taps, float* out,
           size_t stride, const Edge& edge) {
  ptrdiff_t at[tile_vectors];
  int count = rows * vectors;
  for (int i = 0; i < count; ++i) at[i] = i / vectors * in.row_stride + i % vectors * V;
  const float* weights = taps.weights;
  for (size_t row = 0; row < taps.rows; row += M, out += M * stride, weights += M * taps.taps)
    for (int i = 0; i < count; i += 4) {
      auto part = count - i >= 4   ? dense_part<4>
                  : count - i == 3 ? dense_part<3>
                  : count - i == 2 ? dense_part<2>
                                   : dense_part<1>;
      part(in, at + i, weights, taps.taps, row, taps.rows - row, out + i * V, stride, edge);
    }
}

// A kernel for every shape of tile.
#define TILES(Number)                                                                           \
  {{},                                                                                          \
   {nullptr, sparse<Number, 1, 1>, sparse<Number, 1, 2>, sparse<Number, 1, 3>,                  \
    sparse<Number, 1, 4>, sparse<Number, 1, 5>, sparse<Number, 1, 6>, sparse<Number, 1, 7>,     \
    sparse<Number, 1, 8>},                                                                      \
   {nullptr, sparse<Number, 2, 1>, sparse<Number, 2, 2>, sparse<Number, 2, 3>,                  \
    sparse<Number, 2, 4>},                                                                      \
   {nullptr, sparse<Number, 3, 1>, sparse<Number, 3, 2>},                                       \
   {nullptr, sparse<Number, 4, 1>, sparse<Number, 4, 2>},                                       \
   {nullptr, sparse<Number, 5, 1>},                                                             \
   {nullptr, sparse<Number, 6, 1>},                                                             \
   {nullptr, sparse<Number, 7, 1>},                                                             \
   {nullptr, sparse<Number, 8, 1>}}

}  // namespace

const TileKernels tile{V, M, expand, TILES(uint8_t), TILES(uint16_t), dense};

}  // namespace skinny::SKINNY_SET
