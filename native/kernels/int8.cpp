#include "runtime/int8.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

typedef int32_t IVecAnywhere __attribute__((vector_size(4 * V), aligned(4), may_alias));
inline IVec load_cells(const float* from) { return *reinterpret_cast<const IVecAnywhere*>(from); }

// ---- sums of quads times cells

#if defined(__AVX512F__)
#define SKINNY_VNNI __attribute__((target("avx512vnni,avx512vbmi2")))
SKINNY_VNNI inline IVec dot_vnni(IVec sum, IVec x, IVec w) {
  return (IVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}
// Exact where no pair of weights can make more than 16 bits: they are split when they are packed.
inline IVec dot(IVec sum, IVec x, IVec w) {
  __m512i pairs = _mm512_maddubs_epi16((__m512i)x, (__m512i)w);
  return sum + (IVec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
#elif defined(__AVX2__)
#define SKINNY_VNNI __attribute__((target("avxvnni")))
SKINNY_VNNI inline IVec dot_vnni(IVec sum, IVec x, IVec w) {
  return (IVec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
}
inline IVec dot(IVec sum, IVec x, IVec w) {
  __m256i pairs = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
  return sum + (IVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
inline IVec dot(IVec sum, IVec x, IVec w) {
  for (int byte = 0; byte < 4; ++byte)
    sum += (x >> 8 * byte & 255) * (w << (24 - 8 * byte) >> 24);
  return sum;
}
#endif

#define SKINNY_SUMS(attribute, name, product)                                                    \
  template <int N>                                                                               \
  attribute void name##_of(const Int8Rows& rows, const float* const* in, int32_t* sums) {        \
    for (size_t row = 0; row < rows.rows; ++row) {                                               \
      IVec sum[N];                                                                               \
      for (int i = 0; i < N; ++i) sum[i] = IVec{} + rows.start[row];                             \
      for (size_t q = rows.first[row]; q < rows.first[row + 1]; ++q) {                           \
        IVec weight = IVec{} + rows.quads[q];                                                    \
        ptrdiff_t offset = rows.offsets[rows.taps[q]];                                           \
        for (int i = 0; i < N; ++i)                                                              \
          sum[i] = product(sum[i], load_cells(in[i] + offset), weight);                          \
      }                                                                                          \
      for (int i = 0; i < N; ++i)                                                                \
        *reinterpret_cast<IVecAnywhere*>(sums + (static_cast<size_t>(i) * rows.rows + row) * V) = \
            sum[i];                                                                              \
    }                                                                                            \
  }                                                                                              \
  attribute void name(const Int8Rows& rows, const float* const* in, size_t vectors,              \
                      int32_t* sums) {                                                           \
    while (vectors) {                                                                            \
      size_t done = vectors >= 8 ? 8 : vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;                  \
      if (done == 8) name##_of<8>(rows, in, sums);                                               \
      if (done == 4) name##_of<4>(rows, in, sums);                                               \
      if (done == 2) name##_of<2>(rows, in, sums);                                               \
      if (done == 1) name##_of<1>(rows, in, sums);                                               \
      in += done;                                                                                \
      vectors -= done;                                                                           \
      sums += done * rows.rows * V;                                                              \
    }                                                                                            \
  }

// For generated code's order of quads, where there is no code.
#define SKINNY_SUMS_BY_TAP(attribute, name, product)                                             \
  attribute void name(const Int8Rows& rows, const float* const* in, size_t vectors,              \
                      int32_t* sums) {                                                           \
    for (size_t i = 0; i < vectors; ++i, sums += rows.rows * V) {                                \
      auto sum = reinterpret_cast<IVecAnywhere*>(sums);                                          \
      for (size_t row = 0; row < rows.rows; ++row) sum[row] = IVec{} + rows.start[row];          \
      const int32_t* quad = rows.quads;                                                          \
      for (size_t t = 0; t < rows.taps_count; ++t) {                                             \
        IVec x = load_cells(in[i] + rows.offsets[t]);                                            \
        for (uint32_t left = rows.tap_rows[t]; left; left &= left - 1) {                         \
          int row = __builtin_ctz(left);                                                         \
          sum[row] = product(sum[row], x, IVec{} + *quad++);                                     \
        }                                                                                        \
      }                                                                                          \
    }                                                                                            \
  }

SKINNY_SUMS(, sums, dot)
SKINNY_SUMS_BY_TAP(, sums_by_tap, dot)
#if defined(SKINNY_VNNI)
SKINNY_SUMS(SKINNY_VNNI, sums_vnni, dot_vnni)
SKINNY_SUMS_BY_TAP(SKINNY_VNNI, sums_by_tap_vnni, dot_vnni)
#endif

// ---- integers from floats

constexpr float shifter = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
constexpr int32_t shifter_bits = 0x4B400000;

inline Vec limited(Vec x, Vec low, Vec high) {
#if defined(__AVX512F__)
  return _mm512_min_ps(_mm512_max_ps(x, low), high);
#elif defined(__AVX2__)
  return _mm256_min_ps(_mm256_max_ps(x, low), high);
#else
  x = x > low ? x : low;
  return x < high ? x : high;
#endif
}

// rint(clamp(x, low, high)) + zero; NaN is `low`.
inline IVec rounded(Vec x, float low, float high, int32_t zero) {
  return (IVec)(limited(x, Vec{} + low, Vec{} + high) + shifter) - (shifter_bits - zero);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
inline __m256i piece_mask(size_t first, size_t count) {
  __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i before = _mm256_set1_epi32(static_cast<int>(first) - 1);
  __m256i end = _mm256_set1_epi32(static_cast<int>(first + count));
  return _mm256_and_si256(_mm256_cmpgt_epi32(lanes, before), _mm256_cmpgt_epi32(end, lanes));
}
#endif

inline void store_piece(float* to, Vec value, size_t first, size_t count) {
#if defined(__AVX512F__)
  if (count == V) return store(to, value);
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(((1u << count) - 1) << first), value);
#elif defined(__AVX2__)
  if (count == V)
    store(to, value);
  else
    _mm256_maskstore_ps(to, piece_mask(first, count), value);
#else
  float lane[V];
  store(lane, value);
  for (size_t i = first; i < first + count; ++i) to[i] = lane[i];
#endif
}

inline Vec load_piece(Vec rest, const float* from, size_t first, size_t count) {
#if defined(__AVX512F__)
  if (count == V) return load(from);
  return _mm512_mask_loadu_ps(rest, static_cast<__mmask16>(((1u << count) - 1) << first), from);
#elif defined(__AVX2__)
  if (count == V) return load(from);
  __m256i mask = piece_mask(first, count);
  return _mm256_blendv_ps(rest, _mm256_maskload_ps(from, mask), _mm256_castsi256_ps(mask));
#else
  float lane[V];
  store(lane, rest);
  for (size_t i = first; i < first + count; ++i) lane[i] = from[i];
  return load(lane);
#endif
}

inline Vec floats(IVec integers) { return __builtin_convertvector(integers, Vec); }

void finish_vector(const int32_t* sums, const Int8Output& o, const Int8Piece* pieces,
                   size_t count) {
  Vec added{};
  if (o.add == Int8Output::Add::cells)
    for (size_t p = 0; p < count; ++p)
      added = load_piece(added, o.from + pieces[p].add, pieces[p].first, pieces[p].count);
  IVec bytes = (IVec)added, cells{};
  for (size_t c = 0; c < o.channels; ++c) {
    Vec y = floats(*reinterpret_cast<const IVecAnywhere*>(sums + c * V));
    y = y * o.scale[c] + o.bias[c];
    if (o.add == Int8Output::Add::floats)
      for (size_t p = 0; p < count; ++p)
        added = load_piece(added, o.from + c * o.from_stride + pieces[p].add, pieces[p].first,
                           pieces[p].count);
    else if (o.add == Int8Output::Add::cells)
      added = floats((bytes >> static_cast<int>(8 * c) & 255) - o.add_zero) * o.add_scale;
    if (o.add != Int8Output::Add::nothing) y = y + added;
    if (o.cells) {
      cells |= rounded(y * o.inverse, o.low, o.high, o.zero) << static_cast<int>(8 * c);
      continue;
    }
    Vec bottom = Vec{} + o.low, top = Vec{} + o.high;
    y = y < bottom ? bottom : y;  // NaN stays
    y = y > top ? top : y;
    for (size_t p = 0; p < count; ++p)
      store_piece(o.to + c * o.to_stride + pieces[p].out, y, pieces[p].first, pieces[p].count);
  }
  if (o.cells)
    for (size_t p = 0; p < count; ++p)
      store_piece(o.to + pieces[p].out, (Vec)cells, pieces[p].first, pieces[p].count);
}

#if defined(__AVX512F__)
// Cells of four channels, without branches. Where the limits are those of a byte (Whole), numbers are
// packed with saturation, and NaN, the smallest integer, becomes 0; else the low byte of each rounded
// number goes to its place in the cell, and the zero point is added to all bytes at once.
template <Int8Output::Add add, bool Whole>
void finish_cells(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
                  const uint32_t* first, size_t vectors) {
  Vec scale[4], bias[4];
  for (int c = 0; c < 4; ++c) {
    scale[c] = Vec{} + o.scale[c];
    bias[c] = Vec{} + o.bias[c];
  }
  const Vec low = Vec{} + o.low, high = Vec{} + o.high, inverse = Vec{} + o.inverse;
  const Vec add_scale = Vec{} + o.add_scale;
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(o.zero));
  const __m512i lanes = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0);
  const __m512i first_bytes = _mm512_set4_epi32(0x0C, 0x08, 0x04, 0);  // of the cells of a lane
  const __m512i cell = _mm512_set4_epi32(0x0F0B0703, 0x0E0A0602, 0x0D090501, 0x0C080400);
  const __m512i wide_zero = _mm512_set1_epi16(static_cast<int16_t>(o.zero));
  for (size_t i = 0; i < vectors; ++i, sums += stride) {
    const Int8Piece *begin = pieces + first[i], *end = pieces + first[i + 1];
    Vec added{};
    if (add == Int8Output::Add::cells)
      for (const Int8Piece* p = begin; p < end; ++p)
        added = load_piece(added, o.from + p->add, p->first, p->count);
    const auto bytes = (__m512i)added;
    __m512i cells{}, whole[4];
    for (int c = 0; c < 4; ++c) {
      Vec y = floats(*reinterpret_cast<const IVecAnywhere*>(sums + c * V));
      y = y * scale[c] + bias[c];
      if (add == Int8Output::Add::floats)
        for (const Int8Piece* p = begin; p < end; ++p)
          added = load_piece(added, o.from + static_cast<size_t>(c) * o.from_stride + p->add,
                             p->first, p->count);
      if (add == Int8Output::Add::cells) {
        __m512i of_channel = _mm512_add_epi8(first_bytes, _mm512_set1_epi8(static_cast<char>(c)));
        __m512i one = _mm512_maskz_shuffle_epi8(0x1111111111111111ull, bytes, of_channel);
        added = floats((IVec)one - o.add_zero) * add_scale;
      }
      if (add != Int8Output::Add::nothing) y = y + added;
      if (Whole) {
        whole[c] = _mm512_cvtps_epi32(_mm512_min_ps(high, y * inverse));
        continue;
      }
      auto rounded_bits = (__m512i)(limited(y * inverse, low, high) + shifter);
      if (c == 0)
        cells = rounded_bits;
      else
        cells = _mm512_mask_shuffle_epi8(cells, 0x1111111111111111ull << c, rounded_bits, lanes);
    }
    if (Whole) {
      __m512i low_pair = _mm512_packs_epi32(whole[0], whole[1]);
      __m512i high_pair = _mm512_packs_epi32(whole[2], whole[3]);
      cells = _mm512_packus_epi16(_mm512_adds_epi16(low_pair, wide_zero),
                                  _mm512_adds_epi16(high_pair, wide_zero));
      cells = _mm512_shuffle_epi8(cells, cell);
    } else {
      cells = _mm512_add_epi8(cells, zero);
    }
    for (const Int8Piece* p = begin; p < end; ++p)
      store_piece(o.to + p->out, (Vec)cells, p->first, p->count);
  }
}
#endif

void finish(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
            const uint32_t* first, size_t vectors) {
#if defined(__AVX512F__)
  if (o.cells && o.channels == 4) {
    using Add = Int8Output::Add;
    bool whole = o.low == static_cast<float>(-o.zero) && o.high == static_cast<float>(255 - o.zero);
    auto run = whole ? finish_cells<Add::nothing, true> : finish_cells<Add::nothing, false>;
    if (o.add == Add::floats)
      run = whole ? finish_cells<Add::floats, true> : finish_cells<Add::floats, false>;
    if (o.add == Add::cells)
      run = whole ? finish_cells<Add::cells, true> : finish_cells<Add::cells, false>;
    return run(sums, stride, o, pieces, first, vectors);
  }
#endif
  for (size_t i = 0; i < vectors; ++i, sums += stride)
    finish_vector(sums, o, pieces + first[i], first[i + 1] - first[i]);
}

void quantize(const float* const* channels, size_t count, float inverse, int32_t zero,
              float* cells) {
  auto low = static_cast<float>(-zero), high = static_cast<float>(255 - zero);
  for (size_t i = 0; i < count; i += V) {
    size_t left = count - i < V ? count - i : V;
    IVec made{};
    for (int c = 0; c < 4; ++c)
      if (channels[c]) {
        Vec x = left == V ? load(channels[c] + i) : load_some(channels[c] + i, left);
        made |= rounded(x * inverse, low, high, zero) << 8 * c;
      }
    if (left == V)
      store(cells + i, (Vec)made);
    else
      store_some(cells + i, (Vec)made, left);
  }
}

void quantize_row(const float* from, size_t count, float inverse, int32_t zero, uint8_t* to) {
  auto low = static_cast<float>(-zero), high = static_cast<float>(255 - zero);
  for (size_t i = 0; i < count; i += V) {
    size_t left = count - i < V ? count - i : V;
    IVec made = rounded((left == V ? load(from + i) : load_some(from + i, left)) * inverse, low,
                        high, zero);
    for (size_t j = 0; j < left; ++j) to[i + j] = static_cast<uint8_t>(made[j]);
  }
}

void dequantize(const float* cells, size_t count, float scale, int32_t zero,
                float* const* channels) {
  for (size_t i = 0; i < count; i += V) {
    size_t left = count - i < V ? count - i : V;
    IVec bytes = (IVec)(left == V ? load(cells + i) : load_some(cells + i, left));
    for (int c = 0; c < 4; ++c)
      if (channels[c]) {
        Vec made = floats((bytes >> 8 * c & 255) - zero) * scale;
        if (left == V)
          store(channels[c] + i, made);
        else
          store_some(channels[c] + i, made, left);
      }
  }
}

typedef uint8_t Bytes __attribute__((vector_size(4 * V), aligned(4), may_alias));

inline Bytes larger(Bytes a, Bytes b) { return a > b ? a : b; }
inline Bytes load_bytes(const float* from) { return *reinterpret_cast<const Bytes*>(from); }

void largest_of_rows(const float* const* rows, size_t count, size_t width, float* to) {
  size_t x = 0;
  for (; x + V <= width; x += V) {
    Bytes most = load_bytes(rows[0] + x);
    for (size_t r = 1; r < count; ++r) most = larger(most, load_bytes(rows[r] + x));
    *reinterpret_cast<Bytes*>(to + x) = most;
  }
  if (x == width) return;
  size_t left = width - x;
  Vec most = load_some(rows[0] + x, left);
  for (size_t r = 1; r < count; ++r)
    most = (Vec)larger((Bytes)most, (Bytes)load_some(rows[r] + x, left));
  store_some(to + x, most, left);
}

// Every `step`-th of the cells from here on.
inline Bytes load_every(const float* from, size_t step) {
  if (step == 1) return load_bytes(from);
  return (Bytes)alternate<0>(load(from), load(from + V));
}

void largest_of_windows(const float* from, size_t step, size_t length, size_t dilation,
                        size_t count, float* to) {
  for (size_t x = 0; x < count; x += V) {
    const float* at = from + x * step;
    Bytes most = load_every(at, step);
    for (size_t k = 1; k < length; ++k) most = larger(most, load_every(at + k * dilation, step));
    store_some(to + x, (Vec)most, count - x < V ? count - x : V);
  }
}

}  // namespace

const Int8Kernels int8{V,          sums,         sums_by_tap, finish,
                       quantize,   quantize_row, dequantize,  largest_of_rows,
                       largest_of_windows};
#if defined(SKINNY_VNNI)
const Int8Kernels int8_vnni{V,          sums_vnni,    sums_by_tap_vnni, finish,
                            quantize,   quantize_row, dequantize,       largest_of_rows,
                            largest_of_windows};
#endif

}  // namespace skinny::SKINNY_SET
