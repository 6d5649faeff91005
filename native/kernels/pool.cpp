#include "runtime/pool.h"

#include "functions.h"

namespace skinny::SKINNY_SET {
namespace {

// Of a maximum, NaN if either is NaN.
template <bool Max>
inline Vec join(Vec a, Vec b) {
  if constexpr (Max) return larger(a, b);
  else return a + b;
}

template <bool Max>
inline float join(float a, float b) {
  if constexpr (Max) return b > a || b != b ? b : a;
  else return a + b;
}

// reduced[i] = the largest, or the sum, of row[0][i], row[1][i], ...
template <bool Max>
void reduce_rows(const float* const* row, size_t rows, size_t count, float* reduced) {
  const float* a = row[0];
  size_t r = 1;
  if (rows == 1) memcpy(reduced, a, count * sizeof(float));
  while (r < rows) {  // two more rows at a time: three is the usual number
    const float *b = row[r], *c = row[r + 1 < rows ? r + 1 : r];
    bool both = r + 1 < rows;
    size_t i = 0;
    for (; i + V <= count; i += V) {
      Vec v = join<Max>(load(a + i), load(b + i));
      store(reduced + i, both ? join<Max>(v, load(c + i)) : v);
    }
    for (; i < count; ++i) {
      float v = join<Max>(a[i], b[i]);
      reduced[i] = both ? join<Max>(v, c[i]) : v;
    }
    a = reduced;
    r += both ? 2 : 1;
  }
}

// The lanes of `a` but its first, then the first of `b`.
inline Vec next_lanes(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8);
#else
  return __builtin_shufflevector(a, b, 1, 2, 3, 4);
#endif
}

// The last lane of `a`, then the lanes of `b` but its last.
inline Vec previous_lanes(Vec a, Vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                 30);
#elif defined(__AVX2__)
  return __builtin_shufflevector(a, b, 7, 8, 9, 10, 11, 12, 13, 14);
#else
  return __builtin_shufflevector(a, b, 3, 4, 5, 6);
#endif
}

// V windows of three columns, two apart, are made of V even and V odd columns and one more: the first of
// the next windows or, where there is padding, the last of those before. A column is read once.
// column(x): columns [x, x + V) of the rows under the windows, reduced. Reads past the last column.
static_assert(V + 1 <= row_slack);
template <bool Max, bool Padded, class Column>
inline void pool_by_two(const Column& column, float row_scale, const Windows& windows, float* to) {
  const Vec nothing = Max ? splat(-INFINITY) : Vec{};
  const auto count = static_cast<size_t>(windows.count);
  const size_t whole[] = {count, static_cast<size_t>(windows.whole[1]),
                          static_cast<size_t>(windows.whole[2])};
  const size_t end = 2 * count + (!Padded && whole[2] == count);  // of the columns
  Vec next = column(0), before = nothing;
  for (size_t x = 0; x < count; x += V) {
    Vec first = next, second = 2 * x + V < end ? column(2 * x + V) : nothing;
    next = 2 * x + 2 * V < end ? column(2 * x + 2 * V) : nothing;
    Vec even = alternate<0>(first, second), odd = alternate<1>(first, second);
    Vec entry[3] = {even, odd, next_lanes(even, next)};
    if (Padded) entry[0] = previous_lanes(before, odd), entry[1] = even, entry[2] = odd;
    before = odd;
    for (int k = 1; k < 3; ++k) {
      if (whole[k] < x + V)
        entry[k] = join_lanes(entry[k], whole[k] > x ? whole[k] - x : 0, nothing);
      entry[0] = join<Max>(entry[0], entry[k]);
    }
    size_t made = count - x < static_cast<size_t>(V) ? count - x : static_cast<size_t>(V);
    if (!Max) entry[0] *= load_some(windows.scale + x, made) * row_scale;
    store_some(to + x, entry[0], made);
  }
}

template <bool Max, bool Padded>
inline void pool_rows_by_two(const float* const* row, size_t rows, float row_scale,
                             const Windows& windows, float* to) {
  if (rows == 3) {  // the usual number
    const float *a = row[0], *b = row[1], *c = row[2];
    auto column = [=](size_t x) {
      return join<Max>(join<Max>(load(a + x), load(b + x)), load(c + x));
    };
    return pool_by_two<Max, Padded>(column, row_scale, windows, to);
  }
  auto column = [=](size_t x) {
    Vec v = load(row[0] + x);
    for (size_t r = 1; r < rows; ++r) v = join<Max>(v, load(row[r] + x));
    return v;
  };
  pool_by_two<Max, Padded>(column, row_scale, windows, to);
}

// The regular windows of a row. Reads up to 2 V entries past the last.
template <bool Max, int Stride, int Length>
void regular(const float* const* row, size_t rows, float row_scale, const Windows& windows,
             float* to) {
  auto first = static_cast<size_t>(windows.regular);
  size_t count = static_cast<size_t>(windows.irregular) - first;
  auto begin = static_cast<size_t>(windows.begin[first]);
  for (size_t x = 0; x < count; x += V) {
    size_t at = begin + x * Stride;
    Vec entry[3];  // entry k of V windows
    for (int k = 0; k < 3; ++k) entry[k] = Max ? splat(-INFINITY) : Vec{};
    for (size_t r = 0; r < rows; ++r) {
      const float* from = row[r] + at;
      if (Stride == 1)
        for (int k = 0; k < Length; ++k) entry[k] = join<Max>(entry[k], load(from + k));
      else
        for (int k = 0; k < Length; ++k)
          entry[k] = join<Max>(entry[k], k < 2 ? load(from + k * V) : splat(from[2 * V]));
    }
    if (Stride == 2) {
      Vec even = alternate<0>(entry[0], entry[1]), odd = alternate<1>(entry[0], entry[1]);
      entry[2] = next_lanes(even, entry[2]);
      entry[0] = even, entry[1] = odd;
    }
    for (int k = 1; k < Length; ++k) {
      auto whole = static_cast<size_t>(windows.whole[k]);
      size_t lanes = whole > first + x ? whole - first - x : 0;
      if (lanes < static_cast<size_t>(V))
        entry[k] = join_lanes(entry[k], lanes, Max ? splat(-INFINITY) : Vec{});
      entry[0] = join<Max>(entry[0], entry[k]);
    }
    size_t made = count - x < static_cast<size_t>(V) ? count - x : static_cast<size_t>(V);
    if (!Max) entry[0] *= load_some(windows.scale + first + x, made) * row_scale;
    store_some(to + first + x, entry[0], made);
  }
}

template <bool Max>
void window(const float* const* row, size_t rows, float row_scale, const Windows& windows,
            int32_t x, float* to) {
  float v = Max ? -INFINITY : 0.f;
  for (size_t r = 0; r < rows; ++r)
    for (int64_t at = windows.begin[x]; at < windows.end[x]; at += windows.dilation)
      v = join<Max>(v, row[r][at]);
  to[x] = Max ? v : v * (windows.scale[x] * row_scale);
}

// One image. Regular windows are reduced V at a time, others after their rows are reduced to one.
template <bool Max>
void reduce_one(const float* const* row, size_t rows, float row_scale, const Windows& windows,
                size_t width, float* reduced, float* to) {
  using Regular = void (*)(const float* const*, size_t, float, const Windows&, float*);
  constexpr Regular kernels[2][2] = {{regular<Max, 1, 2>, regular<Max, 1, 3>},
                                   {regular<Max, 2, 2>, regular<Max, 2, 3>}};
  if (windows.by_two()) {
    auto run = windows.padded() ? pool_rows_by_two<Max, true> : pool_rows_by_two<Max, false>;
    return run(row, rows, row_scale, windows, to);
  }
  int32_t begin = windows.regular, end = windows.irregular;
  const float* one = reduced;
  if (begin == end && rows > 3) {
    reduce_rows<Max>(row, rows, width, reduced);
    row = &one;
    rows = 1;
  }
  for (int32_t x = 0; x < begin; ++x) window<Max>(row, rows, row_scale, windows, x, to);
  if (begin < end)
    kernels[windows.stride - 1][windows.length - 2](row, rows, row_scale, windows, to);
  for (int32_t x = end; x < windows.count; ++x)
    window<Max>(row, rows, row_scale, windows, x, to);
}

// The columns of interleaved images: every entry is one or more whole vectors.
template <bool Max>
void reduce_images(const float* from, const Windows& windows, size_t n, float* to) {
  for (int32_t x = 0; x < windows.count; ++x)
    for (size_t i = 0; i < n; i += V) {
      const float* at = from + static_cast<size_t>(windows.begin[x]) * n + i;
      size_t stride = static_cast<size_t>(windows.dilation) * n;
      Vec v = load(at);
      // The usual window, unrolled.
      if (windows.end[x] - windows.begin[x] == 3 && windows.dilation == 1) {
        store(to + static_cast<size_t>(x) * n + i,
              join<Max>(join<Max>(v, load(at + stride)), load(at + 2 * stride)));
        continue;
      }
      for (int32_t left = windows.end[x] - windows.begin[x] - windows.dilation; left > 0;
           left -= windows.dilation)
        v = join<Max>(v, load(at += stride));
      store(to + static_cast<size_t>(x) * n + i, v);
    }
}

// Rows and columns of interleaved images at once, for windows without gaps that share at most a column
// with the next one: each column is reduced once, and stays in a register.
template <bool Max, size_t Rows>
void pool_images(const float* const* row, float row_scale, const Windows& windows, size_t n,
                 float* to) {
  for (size_t i = 0; i < n; i += V) {
    auto column = [&](int32_t x) {
      size_t at = static_cast<size_t>(x) * n + i;
      Vec v = load(row[0] + at);
      for (size_t r = 1; r < Rows; ++r) v = join<Max>(v, load(row[r] + at));
      return v;
    };
    Vec last{};
    int32_t end = -1;  // the column after `last`
    for (int32_t x = 0; x < windows.count; ++x) {
      int32_t at = windows.begin[x];
      if (at + 1 != end) last = column(at);
      Vec v = last;
      for (end = windows.end[x]; ++at < end;) v = join<Max>(v, last = column(at));
      store(to + static_cast<size_t>(x) * n + i, Max ? v : v * (row_scale * windows.scale[x]));
    }
  }
}

template <bool Max>
void pool_row(const float* const* row, size_t rows, float row_scale, const Windows& windows,
              size_t width, size_t n, float* reduced, float* to) {
  auto count = static_cast<size_t>(windows.count);
  if (n == 1) return reduce_one<Max>(row, rows, row_scale, windows, width, reduced, to);
  bool regular = windows.regular < windows.irregular && windows.stride + 1 >= windows.length;
  if (regular && rows == 3) return pool_images<Max, 3>(row, row_scale, windows, n, to);
  if (regular && rows == 2) return pool_images<Max, 2>(row, row_scale, windows, n, to);
  reduce_rows<Max>(row, rows, width * n, reduced);
  reduce_images<Max>(reduced, windows, n, to);
  if (!Max)
    for (size_t x = 0; x < count; ++x)
      for (size_t i = 0; i < n; i += V)
        store(to + x * n + i, load(to + x * n + i) * (row_scale * windows.scale[x]));
}

// All rows of a channel whose windows are one vector.
template <bool Max, bool Padded>
void pool_narrow(const float* from, size_t row_stride, const Windows& rows, const Windows& columns,
                 float* to, size_t to_stride) {
  const Vec nothing = Max ? splat(-INFINITY) : Vec{};
  const auto count = static_cast<size_t>(columns.count);
  const auto second = static_cast<size_t>(columns.whole[1]);
  const auto third = static_cast<size_t>(columns.whole[2]);
  const size_t end = 2 * count + (!Padded && third == count);
  const Vec scale = load_some(columns.scale, count);
  for (int32_t y = 0; y < rows.count; ++y, to += to_stride) {
    const float* row = from + static_cast<size_t>(rows.begin[y]) * row_stride;
    Vec low = load(row), high = end > V ? load(row + V) : nothing;
    Vec next = end > 2 * V ? load(row + 2 * V) : nothing;
    for (int32_t r = rows.begin[y] + rows.dilation; r < rows.end[y]; r += rows.dilation) {
      row = from + static_cast<size_t>(r) * row_stride;
      low = join<Max>(low, load(row));
      if (end > V) high = join<Max>(high, load(row + V));
      if (end > 2 * V) next = join<Max>(next, load(row + 2 * V));
    }
    Vec even = alternate<0>(low, high), odd = alternate<1>(low, high);
    Vec made = Padded ? previous_lanes(nothing, odd) : even;
    made = join<Max>(made, join_lanes(Padded ? even : odd, second, nothing));
    made = join<Max>(made, join_lanes(Padded ? odd : next_lanes(even, next), third, nothing));
    if (!Max) made *= scale * rows.scale[y];
    store_some(to, made, count);
  }
}

template <bool Max, bool Padded>
void pool_channel(const float* from, size_t row_stride, const Windows& rows, const Windows& columns,
                  float* to, size_t to_stride) {
  if (columns.count <= V)
    return pool_narrow<Max, Padded>(from, row_stride, rows, columns, to, to_stride);
  const float* row[PoolKernels::most_rows] = {};
  for (int32_t y = 0; y < rows.count; ++y, to += to_stride) {
    size_t count = 0;
    for (int32_t r = rows.begin[y]; r < rows.end[y]; r += rows.dilation)
      row[count++] = from + static_cast<size_t>(r) * row_stride;
    pool_rows_by_two<Max, Padded>(row, count, rows.scale[y], columns, to);
  }
}

void row(bool max, const float* const* row, size_t rows, float row_scale, const Windows& windows,
         size_t width, size_t n, float* reduced, float* to) {
  (max ? pool_row<true> : pool_row<false>)(row, rows, row_scale, windows, width, n, reduced, to);
}

void channel(bool max, const float* from, size_t row_stride, const Windows& rows,
             const Windows& columns, float* to, size_t to_stride) {
  auto run = max ? (columns.padded() ? pool_channel<true, true> : pool_channel<true, false>)
                 : (columns.padded() ? pool_channel<false, true> : pool_channel<false, false>);
  run(from, row_stride, rows, columns, to, to_stride);
}

}  // namespace

const PoolKernels pool{row, channel};

}  // namespace skinny::SKINNY_SET
