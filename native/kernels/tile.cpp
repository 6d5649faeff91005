#include "runtime/tile.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

template <int N>
inline void begin(Vec (&sum)[N], const float* out, size_t row, const Accumulation& accumulation) {
  const float* bias = accumulation.bias;
  for (int i = 0; i < N; ++i) sum[i] = bias ? splat(bias[row]) : load(out + i * V);
}

template <int N>
inline void finish(Vec (&sum)[N], float* out, const Accumulation& accumulation) {
  const Epilogue* epilogue = accumulation.epilogue;
  if (epilogue) {
    Vec low = splat(epilogue->low), high = splat(epilogue->high);
    for (int i = 0; i < N; ++i) sum[i] = at_most(at_least(sum[i], low), high);
  }
  for (int i = 0; i < N; ++i) store(out + i * V, sum[i]);
  if (epilogue && epilogue->activation.kind != ActivationKind::none)
    pointwise.activate(epilogue->activation, out, out, N * V);
}

// The address of a tap is looked up two taps before it is used, across the ends of rows: where the
// branch predictor missed the end of a row, the next row's first loads have already begun.
template <class Index, int R, int C, bool Strided = false>
void sparse(const TileInput& in, const SparseTaps<Index>& taps, float* out, size_t stride,
            const Accumulation& accumulation) {
  const float* data = in.data;
  const int32_t* offsets = in.offsets;
  ptrdiff_t row_stride = in.row_stride, tap_stride = in.tap_stride;
  auto address = [=](size_t tap) {
    return data + (Strided ? static_cast<ptrdiff_t>(tap) * tap_stride : offsets[tap]);
  };
  const float* value = taps.values;
  const Index* index = taps.indices;
  const float* next = address(*index++);
  size_t after = *index++;
  for (const RowTaps* own = taps.rows; own != taps.rows + taps.row_count; ++own) {
    float* to = out + own->row * stride;
    Vec sum[R * C];
    begin(sum, to, own->row, accumulation);
    const float* last = value + own->taps;
    each_weight(value, last, [&](Vec weight) {
      const float* at = next;
      next = address(after);
      after = *index++;
      for (int r = 0; r < R; ++r, at += row_stride)
        for (int c = 0; c < C; ++c) sum[r * C + c] += weight * load(at + c * V);
    });
    value = last;
    finish(sum, to, accumulation);
  }
}

// For each of 256 masks, the indices of its ones and their number; entries of `of` after the last
// one are not used.
struct OnesOf {
  uint8_t of[256][8], count[256];
  constexpr OnesOf() : of(), count() {
    for (int mask = 0; mask < 256; ++mask)
      for (int bit = 0; bit < 8; ++bit)
        if (mask >> bit & 1) of[mask][count[mask]++] = static_cast<uint8_t>(bit);
  }
};
constexpr OnesOf ones;

inline size_t count_ones(uint8_t mask) {
#if defined(__POPCNT__)
  return static_cast<size_t>(__builtin_popcount(mask));
#else
  return ones.count[mask];  // without an instruction, or with a slow one (NEON)
#endif
}

// Appends the indices of the ones in a mask; returns where the next list begins.
inline uint8_t* expand_bytes(const uint8_t* mask, size_t bytes, uint8_t* next) {
  uint64_t first = 0;  // in each of its bytes, the index of mask[i]'s lowest bit: at most 248
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes; ++i, first += 0x0808080808080808) {
    uint64_t found;
    memcpy(&found, ones.of[mask[i]], sizeof found);
    found += first;
    memcpy(next, &found, sizeof found);
    next += count_ones(mask[i]);
  }
  return next;
}

#if defined(__AVX512F__)
struct From0To63 {
  alignas(64) uint8_t index[64];
  constexpr From0To63() : index() {
    for (int i = 0; i < 64; ++i) index[i] = static_cast<uint8_t>(i);
  }
};
constexpr From0To63 from_0_to_63;

// The same by eight bytes of the mask at a time. Not every processor with AVX-512 has VBMI2.
__attribute__((target("avx512vbmi2"))) uint8_t* expand_words(const uint8_t* mask, size_t bytes,
                                                             uint8_t* next) {
  __m512i index = _mm512_load_si512(from_0_to_63.index);
  for (size_t i = 0; i < bytes; i += 8, index = _mm512_add_epi8(index, _mm512_set1_epi8(64))) {
    uint64_t bits;
    memcpy(&bits, mask + i, sizeof bits);
    if (bytes - i < 8) bits = _bzhi_u64(bits, static_cast<unsigned>(8 * (bytes - i)));
    _mm512_storeu_si512(next, _mm512_maskz_compress_epi8(bits, index));
    next += __builtin_popcountll(bits);
  }
  return next;
}
#endif

size_t expand(const uint8_t* masks, size_t rows, size_t bytes, uint8_t* indices) {
  uint8_t* next = indices;
  auto one = expand_bytes;
#if defined(__AVX512F__)
  if (__builtin_cpu_supports("avx512vbmi2")) one = expand_words;
#endif
  for (size_t row = 0; row < rows; ++row) next = one(masks + row * bytes, bytes, next);
  memset(next, 0, tap_slack);
  return static_cast<size_t>(next - indices);
}

constexpr int M = many_registers ? 6 : 3;  // 6 x 4 sums in 32 registers, or 3 x 4 in 16

// R of the M output channels whose weights lie together, or `rows` of these.
template <int R, int N>
void dense_block(const TileInput& in, const ptrdiff_t* at, const float* weights, size_t taps,
                 size_t row, size_t rows, float* out, size_t stride,
                 const Accumulation& accumulation) {
  Vec sum[R][N];
  if (accumulation.bias)  // what is stored comes into the cache while the sums are computed
    for (size_t m = 0; m < R && m < rows; ++m)
      for (int i = 0; i < N; ++i) __builtin_prefetch(out + m * stride + i * V, 1);
  for (size_t m = 0; m < R; ++m)
    if (m < rows)
      begin(sum[m], out + m * stride, row + m, accumulation);
    else
      for (int i = 0; i < N; ++i) sum[m][i] = Vec{};
  for (size_t t = 0; t < taps; ++t, weights += M) {
    Vec value[N];
    for (int i = 0; i < N; ++i) value[i] = load(in.data + in.offsets[t] + at[i]);
    each_of<R>(weights, [&](int m, Vec weight) {
      for (int i = 0; i < N; ++i) sum[m][i] += weight * value[i];
    });
  }
  for (size_t m = 0; m < R && m < rows; ++m) finish(sum[m], out + m * stride, accumulation);
}

using DenseBlock = void (*)(const TileInput&, const ptrdiff_t*, const float*, size_t, size_t, size_t,
                            float*, size_t, const Accumulation&);
template <int R>
constexpr DenseBlock dense_blocks[] = {nullptr, dense_block<R, 1>, dense_block<R, 2>,
                                       dense_block<R, 3>, dense_block<R, 4>};

void dense(const TileInput& in, int rows, int vectors, const DenseTaps& taps, float* out,
           size_t stride, const Accumulation& accumulation) {
  ptrdiff_t at[tile_vectors];
  int count = rows * vectors;
  for (int i = 0; i < count; ++i) at[i] = i / vectors * in.row_stride + i % vectors * V;
  const float* weights = taps.weights;
  for (size_t row = 0; row < taps.rows; row += M, out += M * stride, weights += M * taps.taps) {
    size_t rows = taps.rows - row;  // the last ones are few: a third or two of a block
    auto blocks = 3 * rows <= M       ? dense_blocks<M / 3>
                  : 3 * rows <= 2 * M ? dense_blocks<2 * M / 3>
                                      : dense_blocks<M>;
    for (int i = 0; i < count; i += 4)
      blocks[count - i < 4 ? count - i : 4](in, at + i, weights, taps.taps, row, rows, out + i * V,
                                            stride, accumulation);
  }
}

void copy(const float* from, ptrdiff_t from_stride, float* to, ptrdiff_t to_stride, size_t rows,
          size_t count) {
  for (size_t row = 0; row < rows; ++row, from += from_stride, to += to_stride) {
    size_t i = 0;
    for (; i + V <= count; i += V) store(to + i, load(from + i));
    if (i < count) store_some(to + i, load_some(from + i, count - i), count - i);
  }
}

void scale(const float* from, ptrdiff_t from_stride, const float* factors, float* to,
           ptrdiff_t to_stride, size_t rows, size_t count) {
  for (size_t row = 0; row < rows; ++row, from += from_stride, to += to_stride) {
    Vec factor = splat(factors[row]);
    size_t i = 0;
    for (; i + V <= count; i += V) store(to + i, load(from + i) * factor);
    if (i < count) store_some(to + i, load_some(from + i, count - i) * factor, count - i);
  }
}

void add(const float* a, ptrdiff_t a_stride, const float* b, ptrdiff_t b_stride, float* to,
         ptrdiff_t to_stride, size_t rows, size_t count, float low, float high) {
  Vec least = splat(low), most = splat(high);
  auto sum = [&](Vec x, Vec y) { return at_most(at_least(x + y, least), most); };
  for (size_t row = 0; row < rows; ++row, a += a_stride, b += b_stride, to += to_stride) {
    size_t i = 0;
    for (; i + V <= count; i += V) store(to + i, sum(load(a + i), load(b + i)));
    if (i < count)
      store_some(to + i, sum(load_some(a + i, count - i), load_some(b + i, count - i)), count - i);
  }
}

// A kernel for every shape of tile.
#define TILES(Index)                                                                           \
  {{},                                                                                          \
   {nullptr, sparse<Index, 1, 1>, sparse<Index, 1, 2>, sparse<Index, 1, 3>,                  \
    sparse<Index, 1, 4>, sparse<Index, 1, 5>, sparse<Index, 1, 6>, sparse<Index, 1, 7>,     \
    sparse<Index, 1, 8>},                                                                      \
   {nullptr, sparse<Index, 2, 1>, sparse<Index, 2, 2>, sparse<Index, 2, 3>,                  \
    sparse<Index, 2, 4>},                                                                      \
   {nullptr, sparse<Index, 3, 1>, sparse<Index, 3, 2>},                                       \
   {nullptr, sparse<Index, 4, 1>, sparse<Index, 4, 2>},                                       \
   {nullptr, sparse<Index, 5, 1>},                                                             \
   {nullptr, sparse<Index, 6, 1>},                                                             \
   {nullptr, sparse<Index, 7, 1>},                                                             \
   {nullptr, sparse<Index, 8, 1>}}

#define STRIDED_TILES(Index)                                                                       \
  {nullptr, sparse<Index, 1, 1, true>, sparse<Index, 1, 2, true>, sparse<Index, 1, 3, true>,      \
   sparse<Index, 1, 4, true>, sparse<Index, 1, 5, true>, sparse<Index, 1, 6, true>,               \
   sparse<Index, 1, 7, true>, sparse<Index, 1, 8, true>}

}  // namespace

const TileKernels tile{V,
                       M,
                       expand,
                       {TILES(uint8_t), STRIDED_TILES(uint8_t)},
                       {TILES(uint16_t), STRIDED_TILES(uint16_t)},
                       copy,
                       scale,
                       add,
                       dense};

}  // namespace skinny::SKINNY_SET
