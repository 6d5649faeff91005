#include "runtime/int8.h"

#include "int8_rounding.h"

namespace skinny::SKINNY_SET {
namespace {

// ---- sums of quads times cells

inline IVec every(int32_t quad) { return IVec{} + quad; }

#if defined(__AVX512F__)
#define SKINNY_VNNI __attribute__((target("avx512vnni,avx512vbmi2")))
SKINNY_VNNI inline IVec dot_vnni(IVec sum, IVec x, IVec w) {
  return (IVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
}
#elif defined(__AVX2__)
#define SKINNY_VNNI __attribute__((target("avxvnni")))
SKINNY_VNNI inline IVec dot_vnni(IVec sum, IVec x, IVec w) {
  return (IVec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
}
#endif

#if defined(__AVX2__)
// |w| (x - 128), or |w| (127 - x) where w is negative: sums of two such products have 16 bits, which
// those of w x have not. What is too much is in the first sum (Int8Weights).
struct Flipped {
  IVec size, flip;
};
constexpr int32_t middle = -0x7F7F7F80;  // 128 in each byte
typedef int8_t SignedBytes __attribute__((vector_size(4 * V)));
inline Flipped flipped(int32_t quad) {
  auto bytes = (SignedBytes)(IVec{} + quad);
  SignedBytes negative = bytes < 0;
  return {(IVec)((bytes ^ negative) - negative), (IVec)negative ^ middle};
}
#if defined(__AVX512F__)
inline IVec dot(IVec sum, IVec x, const Flipped& w) {
  __m512i pairs = _mm512_maddubs_epi16((__m512i)w.size, (__m512i)(x ^ w.flip));
  return sum + (IVec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
#else
inline IVec dot(IVec sum, IVec x, const Flipped& w) {
  __m256i pairs = _mm256_maddubs_epi16((__m256i)w.size, (__m256i)(x ^ w.flip));
  return sum + (IVec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#endif
#else
inline IVec flipped(int32_t quad) { return every(quad); }  // in 32 bits, as it is
inline IVec dot(IVec sum, IVec x, IVec w) {
  for (int byte = 0; byte < 4; ++byte)
    sum += (x >> 8 * byte & 255) * (w << (24 - 8 * byte) >> 24);
  return sum;
}
#endif

template <bool Halves>
inline IVec cells_at(const float* at, ptrdiff_t gap) {
  if constexpr (Halves) return (IVec)join_lanes(load(at), V / 2, load(at + gap));
  else return load_cells(at);
}

#define SKINNY_SUMS(attribute, name, prepared, product)                                          \
  template <int N, bool Halves>                                                                  \
  attribute void name##_of(const Int8Rows& rows, const float* const* in, int32_t* sums) {        \
    for (size_t row = 0; row < rows.rows; ++row) {                                               \
      IVec sum[N];                                                                               \
      for (int i = 0; i < N; ++i) sum[i] = IVec{} + rows.start[row];                             \
      for (size_t q = rows.first[row]; q < rows.first[row + 1]; ++q) {                           \
        const auto weight = prepared(rows.quads[q]);                                             \
        ptrdiff_t offset = rows.offsets[rows.taps[q]];                                           \
        for (int i = 0; i < N; ++i)                                                              \
          sum[i] = product(sum[i], cells_at<Halves>(in[i] + offset, rows.gap), weight);          \
      }                                                                                          \
      for (int i = 0; i < N; ++i)                                                                \
        *reinterpret_cast<IVecAnywhere*>(sums + (static_cast<size_t>(i) * rows.rows + row) * V) = \
            sum[i];                                                                              \
    }                                                                                            \
  }                                                                                              \
  template <bool Halves>                                                                         \
  attribute void name##_all(const Int8Rows& rows, const float* const* in, size_t vectors,        \
                            int32_t* sums) {                                                     \
    while (vectors) {                                                                            \
      size_t done = vectors >= 8 ? 8 : vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;                  \
      if (done == 8) name##_of<8, Halves>(rows, in, sums);                                       \
      if (done == 4) name##_of<4, Halves>(rows, in, sums);                                       \
      if (done == 2) name##_of<2, Halves>(rows, in, sums);                                       \
      if (done == 1) name##_of<1, Halves>(rows, in, sums);                                       \
      in += done;                                                                                \
      vectors -= done;                                                                           \
      sums += done * rows.rows * V;                                                              \
    }                                                                                            \
  }                                                                                              \
  attribute void name(const Int8Rows& rows, const float* const* in, size_t vectors,              \
                      int32_t* sums) {                                                           \
    (rows.gap ? name##_all<true> : name##_all<false>)(rows, in, vectors, sums);                  \
  }

// For generated code's order of quads, where there is no code.
#define SKINNY_SUMS_BY_TAP(attribute, name, prepared, product)                                   \
  template <int N, bool Halves>                                                                  \
  attribute void name##_of(const Int8Rows& rows, const float* const* in, int32_t* sums) {        \
    IVecAnywhere* sum[N];                                                                        \
    for (int i = 0; i < N; ++i) {                                                                \
      sum[i] = reinterpret_cast<IVecAnywhere*>(sums) + static_cast<size_t>(i) * rows.rows;       \
      for (size_t row = 0; row < rows.rows; ++row) sum[i][row] = IVec{} + rows.start[row];       \
    }                                                                                            \
    const int32_t* quad = rows.quads;                                                            \
    for (size_t t = 0; t < rows.taps_count; ++t) {                                               \
      IVec x[N];                                                                                 \
      for (int i = 0; i < N; ++i) x[i] = cells_at<Halves>(in[i] + rows.offsets[t], rows.gap);    \
      for (uint32_t left = rows.tap_rows[t]; left; left &= left - 1) {                           \
        int row = __builtin_ctz(left);                                                           \
        auto weight = prepared(*quad++);                                                         \
        for (int i = 0; i < N; ++i) sum[i][row] = product(sum[i][row], x[i], weight);            \
      }                                                                                          \
    }                                                                                            \
  }                                                                                              \
  template <bool Halves>                                                                         \
  attribute void name##_all(const Int8Rows& rows, const float* const* in, size_t vectors,        \
                            int32_t* sums) {                                                     \
    while (vectors) {                                                                            \
      size_t done = vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;                                     \
      if (done == 4) name##_of<4, Halves>(rows, in, sums);                                       \
      if (done == 2) name##_of<2, Halves>(rows, in, sums);                                       \
      if (done == 1) name##_of<1, Halves>(rows, in, sums);                                       \
      in += done;                                                                                \
      vectors -= done;                                                                           \
      sums += done * rows.rows * V;                                                              \
    }                                                                                            \
  }                                                                                              \
  attribute void name(const Int8Rows& rows, const float* const* in, size_t vectors,              \
                      int32_t* sums) {                                                           \
    (rows.gap ? name##_all<true> : name##_all<false>)(rows, in, vectors, sums);                  \
  }

SKINNY_SUMS(, sums, flipped, dot)
SKINNY_SUMS_BY_TAP(, sums_by_tap, flipped, dot)
#if defined(SKINNY_VNNI)
SKINNY_SUMS(SKINNY_VNNI, sums_vnni, every, dot_vnni)
SKINNY_SUMS_BY_TAP(SKINNY_VNNI, sums_by_tap_vnni, every, dot_vnni)
#endif

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

const Int8Kernels int8{V,          sums,         sums_by_tap,
                       quantize,   quantize_row, dequantize,  largest_of_rows,
                       largest_of_windows};
#if defined(SKINNY_VNNI)
const Int8Kernels int8_vnni{V,          sums_vnni,    sums_by_tap_vnni,
                            quantize,   quantize_row, dequantize,       largest_of_rows,
                            largest_of_windows};
#endif

}  // namespace skinny::SKINNY_SET
