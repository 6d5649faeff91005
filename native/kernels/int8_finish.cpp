// What becomes of the sums of layers in int8.
#include "int8_rounding.h"
#include "runtime/int8.h"

namespace skinny::SKINNY_SET {
namespace {

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
  if (count == V) return store(to, value);
  __m256i from = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  from = _mm256_add_epi32(from, _mm256_set1_epi32(static_cast<int>(first)));
  store_some(to + first, _mm256_permutevar8x32_ps(value, from), count);
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
    y = at_most(at_least(y, splat(o.low)), splat(o.high));  // NaN stays
    for (size_t p = 0; p < count; ++p)
      store_piece(o.to + c * o.to_stride + pieces[p].out, y, pieces[p].first, pieces[p].count);
  }
  if (o.cells)
    for (size_t p = 0; p < count; ++p)
      store_piece(o.to + pieces[p].out, (Vec)cells, pieces[p].first, pieces[p].count);
}

// Floats to which nothing is added, channel by channel.
void finish_floats(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
                   const uint32_t* first, size_t vectors) {
  const Vec bottom = splat(o.low), top = splat(o.high);
  for (size_t c = 0; c < o.channels; ++c) {
    const Vec scale = splat(o.scale[c]), bias = splat(o.bias[c]);
    float* to = o.to + c * o.to_stride;
    for (size_t i = 0; i < vectors; ++i) {
      Vec y = floats(*reinterpret_cast<const IVecAnywhere*>(sums + i * stride + c * V));
      y = at_most(at_least(y * scale + bias, bottom), top);  // NaN stays
      for (const Int8Piece* p = pieces + first[i]; p < pieces + first[i + 1]; ++p)
        store_piece(to + p->out, y, p->first, p->count);
    }
  }
}

#if defined(__AVX512F__)
// How numbers are limited. `byte`: they are packed with saturation, and NaN, the smallest integer,
// becomes 0. `positive`: the same where the zero point is 0 and no number is too large for an integer.
// Else the low byte of each rounded number goes to its place in the cell, and the zero point is added
// to all bytes at once.
enum class Limits { any, byte, positive };

// Cells of four channels, without branches.
template <Int8Output::Add add, Limits limits>
void finish_cells(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
                  const uint32_t* first, size_t vectors) {
  Vec scale[4], bias[4];
  for (int c = 0; c < 4; ++c) {
    scale[c] = splat(o.scale[c]);
    bias[c] = splat(o.bias[c]);
  }
  const Vec low = splat(o.low), high = splat(o.high), inverse = splat(o.inverse);
  const Vec add_scale = splat(o.add_scale);
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
      if (limits != Limits::any) {
        Vec scaled = y * inverse;
        if (limits == Limits::byte) scaled = _mm512_min_ps(high, scaled);
        whole[c] = _mm512_cvtps_epi32(scaled);
        continue;
      }
      auto rounded_bits = (__m512i)(limited(y * inverse, low, high) + shifter);
      if (c == 0)
        cells = rounded_bits;
      else
        cells = _mm512_mask_shuffle_epi8(cells, 0x1111111111111111ull << c, rounded_bits, lanes);
    }
    if (limits != Limits::any) {
      __m512i low_pair = _mm512_packs_epi32(whole[0], whole[1]);
      __m512i high_pair = _mm512_packs_epi32(whole[2], whole[3]);
      if (limits == Limits::byte) {
        low_pair = _mm512_adds_epi16(low_pair, wide_zero);
        high_pair = _mm512_adds_epi16(high_pair, wide_zero);
      }
      cells = _mm512_shuffle_epi8(_mm512_packus_epi16(low_pair, high_pair), cell);
    } else {
      cells = _mm512_add_epi8(cells, zero);
    }
    for (const Int8Piece* p = begin; p < end; ++p)
      store_piece(o.to + p->out, (Vec)cells, p->first, p->count);
  }
}
#elif defined(__AVX2__)
// The same with two forms. Of any limits the upper one is that of the floats, since larger ones than
// 32 bits hold become the smallest integer, as NaN does, and the lower one that of the bytes.
// `positive`, as above: packing with saturation limits numbers.
template <Int8Output::Add add, bool positive = false>
void finish_cells(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
                  const uint32_t* first, size_t vectors) {
  Vec scale[4], bias[4];
  for (int c = 0; c < 4; ++c) {
    scale[c] = splat(o.scale[c]);
    bias[c] = splat(o.bias[c]);
  }
  const Vec high = splat(o.high), inverse = splat(o.inverse), add_scale = splat(o.add_scale);
  const __m256i low = _mm256_set1_epi8(static_cast<char>(static_cast<int>(o.low) + o.zero));
  const __m256i zero = _mm256_set1_epi16(static_cast<int16_t>(o.zero));
  const __m256i cell = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  for (size_t i = 0; i < vectors; ++i, sums += stride) {
    const Int8Piece *begin = pieces + first[i], *end = pieces + first[i + 1];
    Vec added{};
    if (add == Int8Output::Add::cells)
      for (const Int8Piece* p = begin; p < end; ++p)
        added = load_piece(added, o.from + p->add, p->first, p->count);
    const IVec bytes = (IVec)added;
    __m256i whole[4];
    for (int c = 0; c < 4; ++c) {
      Vec y = floats(*reinterpret_cast<const IVecAnywhere*>(sums + c * V));
      y = y * scale[c] + bias[c];
      if (add == Int8Output::Add::floats)
        for (const Int8Piece* p = begin; p < end; ++p)
          added = load_piece(added, o.from + static_cast<size_t>(c) * o.from_stride + p->add,
                             p->first, p->count);
      if (add == Int8Output::Add::cells)
        added = floats((bytes >> 8 * c & 255) - o.add_zero) * add_scale;
      if (add != Int8Output::Add::nothing) y = y + added;
      whole[c] = _mm256_cvtps_epi32(positive ? y * inverse : _mm256_min_ps(high, y * inverse));
    }
    __m256i low_pair = _mm256_packs_epi32(whole[0], whole[1]);
    __m256i high_pair = _mm256_packs_epi32(whole[2], whole[3]);
    if (!positive) {
      low_pair = _mm256_adds_epi16(low_pair, zero);
      high_pair = _mm256_adds_epi16(high_pair, zero);
    }
    __m256i cells = _mm256_packus_epi16(low_pair, high_pair);
    if (!positive) cells = _mm256_max_epu8(cells, low);
    cells = _mm256_shuffle_epi8(cells, cell);
    for (const Int8Piece* p = begin; p < end; ++p)
      store_piece(o.to + p->out, (Vec)cells, p->first, p->count);
  }
}
#endif

// Four of the channels, or the last ones.
inline Int8Output four_of(const Int8Output& o, size_t channel) {
  Int8Output part = o;
  part.scale += channel;
  part.bias += channel;
  part.channels = o.channels - channel < 4 ? o.channels - channel : 4;
  part.to += (o.cells ? channel / 4 : channel) * o.to_stride;
  if (o.add != Int8Output::Add::nothing)
    part.from += (o.add == Int8Output::Add::cells ? channel / 4 : channel) * o.from_stride;
  return part;
}

using Four = void (*)(const int32_t* sums, size_t stride, const Int8Output&, const Int8Piece*,
                      const uint32_t* first, size_t vectors);

// The kernel for cells of four channels; null where there is none.
inline Four kernel_for(const Int8Output& o) {
  if (!o.cells) return nullptr;
  using Add [[maybe_unused]] = Int8Output::Add;
  [[maybe_unused]] const bool byte =
      o.low == static_cast<float>(-o.zero) && o.high == static_cast<float>(255 - o.zero);
  [[maybe_unused]] const bool positive = byte && o.zero == 0 && o.bounded;
#if defined(__AVX512F__)
  if (o.add == Add::floats)
    return byte ? finish_cells<Add::floats, Limits::byte> : finish_cells<Add::floats, Limits::any>;
  if (o.add == Add::cells)
    return byte ? finish_cells<Add::cells, Limits::byte> : finish_cells<Add::cells, Limits::any>;
  if (!byte) return finish_cells<Add::nothing, Limits::any>;
  return positive ? finish_cells<Add::nothing, Limits::positive>
                  : finish_cells<Add::nothing, Limits::byte>;
#elif defined(__AVX2__)
  if (o.add == Add::floats) return finish_cells<Add::floats>;
  if (o.add == Add::cells) return finish_cells<Add::cells>;
  return positive ? finish_cells<Add::nothing, true> : finish_cells<Add::nothing>;
#else
  return nullptr;
#endif
}

void finish(const int32_t* sums, size_t stride, const Int8Output& o, const Int8Piece* pieces,
            const uint32_t* first, size_t vectors) {
  if (!o.cells && o.add == Int8Output::Add::nothing)
    return finish_floats(sums, stride, o, pieces, first, vectors);
  Four run = kernel_for(o);
  for (size_t channel = 0; channel < o.channels; channel += 4, sums += 4 * V) {
    Int8Output part = four_of(o, channel);
    if (run && part.channels == 4) {
      run(sums, stride, part, pieces, first, vectors);
      continue;
    }
    for (size_t i = 0; i < vectors; ++i)
      finish_vector(sums + i * stride, part, pieces + first[i], first[i + 1] - first[i]);
  }
}

void place(const float* vectors, size_t count, const Int8Piece* pieces, size_t pieces_count,
           float* to, size_t stride) {
  for (const Int8Piece* p = pieces; p < pieces + pieces_count; ++p)
    for (size_t i = 0; i < count; ++i)
      store_piece(to + i * stride + p->out, load(vectors + i * V), p->first, p->count);
}

}  // namespace

const Int8Finish int8_finish{finish, place};

}  // namespace skinny::SKINNY_SET
