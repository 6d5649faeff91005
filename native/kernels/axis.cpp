#include "runtime/axis.h"

#include "functions.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr size_t lanes = V;
constexpr int N = 2;                     // vectors of a block of columns: a cache line with AVX2
constexpr size_t wide = N * lanes;
constexpr size_t piece = 128;            // entries, or vectors, that are summed in one accumulator

// N neighbouring vectors, of which the first `count` floats are in use.
struct Columns {
  size_t count[N];

  explicit Columns(size_t floats) {
    for (size_t i = 0; i < N; ++i)
      count[i] = floats <= i * lanes ? 0 : floats < (i + 1) * lanes ? floats - i * lanes : lanes;
  }
  Vec get(const float* from, int i) const { return load_some(from + i * V, count[i]); }
  void put(float* to, int i, Vec v) const { store_some(to + i * V, v, count[i]); }
};

// The same where all are in use.
struct AllColumns {
  explicit AllColumns(size_t) {}
  Vec get(const float* from, int i) const { return load(from + i * V); }
  void put(float* to, int i, Vec v) const { store(to + i * V, v); }
};

// Calls f(from, to, columns) for each block of columns.
template <class F>
inline void each_block(const float* from, float* to, size_t inner, F f) {
  size_t at = 0;
  for (; at + wide <= inner; at += wide) f(from + at, to + at, AllColumns(wide));
  if (at < inner) f(from + at, to + at, Columns(inner - at));
}

// Sums of f(entry, i) over the axis for each of N vectors, in pieces, which keeps the rounding of
// long sums small.
template <class Block, class F>
inline void sum_columns(const float* from, size_t stride, size_t axis, const Block& block,
                        Vec (&sum)[N], F f) {
  for (int i = 0; i < N; ++i) sum[i] = Vec{};
  for (size_t first = 0; first < axis; first += piece) {
    size_t last = first + piece < axis ? first + piece : axis, k = first;
    Vec even[N] = {}, odd[N] = {};
    for (; k + 2 <= last; k += 2)
      for (int i = 0; i < N; ++i) {
        even[i] += f(block.get(from + k * stride, i), i);
        odd[i] += f(block.get(from + (k + 1) * stride, i), i);
      }
    if (k < last)
      for (int i = 0; i < N; ++i) even[i] += f(block.get(from + k * stride, i), i);
    for (int i = 0; i < N; ++i) sum[i] += even[i] + odd[i];
  }
}

// Two passes, since the difference of the mean of squares and the square of the mean cancels. What
// rounding left in the mean is found in the second pass, and corrected.
template <class Block>
inline void norm_block(const float* from, size_t from_stride, float* to, size_t to_stride,
                       size_t axis, const Normalisation& norm, const Block& block) {
  auto count = static_cast<float>(axis);
  Vec mean[N] = {}, scale[N], squares[N];
  if (norm.subtract_mean) {
    sum_columns(from, from_stride, axis, block, mean, [](Vec x, int) { return x; });
    for (int i = 0; i < N; ++i) mean[i] /= count;
  }
  Vec rest[N] = {};
  sum_columns(from, from_stride, axis, block, squares, [&](Vec x, int i) {
    Vec centred = x - mean[i];
    rest[i] += centred;
    return centred * centred;
  });
  for (int i = 0; i < N; ++i) {
    Vec shift = norm.subtract_mean ? rest[i] / count : Vec{};
    scale[i] = 1.f / root(squares[i] / count - shift * shift + norm.eps);
    rest[i] = shift;
  }
  for (size_t k = 0; k < axis; ++k) {
    float weight = norm.weight ? norm.weight[k] : 1.f, bias = norm.bias ? norm.bias[k] : 0.f;
    for (int i = 0; i < N; ++i) {
      Vec x = block.get(from + k * from_stride, i);
      block.put(to + k * to_stride, i, ((x - mean[i]) - rest[i]) * scale[i] * weight + bias);
    }
  }
}

void norm_columns(const float* from, size_t from_stride, float* to, size_t to_stride, size_t axis,
                  size_t inner, const Normalisation& norm) {
  each_block(from, to, inner, [&](const float* x, float* y, const auto& block) {
    norm_block(x, from_stride, y, to_stride, axis, norm, block);
  });
}

template <class F>
inline float fold(Vec v, F f) {
  float lane[V];
  store(lane, v);
  for (int width = V / 2; width; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] = f(lane[i], lane[i + width]);
  return lane[0];
}

inline double total(Vec v) {
  float lane[V];
  double sum = 0;
  store(lane, v);
  for (int i = 0; i < V; ++i) sum += lane[i];
  return sum;
}

// The sum of f(entry) along a row, in pieces that are added up in double precision. f(padding) must
// not matter: lanes past the end are left out.
template <class F>
inline double sum_row(const float* from, size_t axis, F f) {
  double sum = 0;
  size_t k = 0;
  while (k + 4 * lanes <= axis) {
    size_t left = (axis - k) / (4 * lanes), steps = left < piece ? left : piece;
    Vec part[4] = {};
    for (; steps; --steps, k += 4 * lanes)
      for (int i = 0; i < 4; ++i) part[i] += f(load(from + k + i * V));
    sum += total((part[0] + part[1]) + (part[2] + part[3]));
  }
  for (; k < axis; k += lanes) {
    size_t used = axis - k < lanes ? axis - k : lanes;
    sum += total(join_lanes(f(load_some(from + k, used)), used, Vec{}));
  }
  return sum;
}

template <class F>
inline void map_row(const float* from, float* to, size_t axis, F f) {
  size_t k = 0;
  for (; k + lanes <= axis; k += lanes) store(to + k, f(load(from + k), k, lanes));
  if (k < axis) store_some(to + k, f(load_some(from + k, axis - k), k, axis - k), axis - k);
}

void norm_row(const float* from, float* to, size_t axis, const Normalisation& norm) {
  auto count = static_cast<double>(axis);
  float mean = 0, shift = 0;
  if (norm.subtract_mean) {
    mean = static_cast<float>(sum_row(from, axis, [](Vec x) { return x; }) / count);
    shift = static_cast<float>(sum_row(from, axis, [=](Vec x) { return x - mean; }) / count);
  }
  double squares = sum_row(from, axis, [=](Vec x) {
    Vec centred = (x - mean) - shift;
    return centred * centred;
  });
  auto scale = static_cast<float>(1 / sqrt(squares / count + static_cast<double>(norm.eps)));
  map_row(from, to, axis, [&](Vec x, size_t k, size_t used) {
    Vec y = ((x - mean) - shift) * scale;
    if (norm.weight) y = y * load_some(norm.weight + k, used);
    return norm.bias ? y + load_some(norm.bias + k, used) : y;
  });
}

// NaN anywhere along the axis makes the sum, and with it every result, NaN.
template <class Block>
inline void softmax_block(const float* from, size_t from_stride, float* to, size_t to_stride,
                          size_t axis, bool log, const Block& block) {
  Vec top[N], sum[N] = {};
  for (int i = 0; i < N; ++i) top[i] = block.get(from, i);
  for (size_t k = 1; k < axis; ++k)
    for (int i = 0; i < N; ++i) top[i] = at_least(top[i], block.get(from + k * from_stride, i));
  if (log) {
    for (size_t k = 0; k < axis; ++k)
      for (int i = 0; i < N; ++i)
        sum[i] += exponential_or_zero(block.get(from + k * from_stride, i) - top[i]);
    for (int i = 0; i < N; ++i) sum[i] = logarithm(sum[i]);
    for (size_t k = 0; k < axis; ++k)
      for (int i = 0; i < N; ++i)
        block.put(to + k * to_stride, i, block.get(from + k * from_stride, i) - top[i] - sum[i]);
    return;
  }
  for (size_t k = 0; k < axis; ++k)
    for (int i = 0; i < N; ++i) {
      Vec e = exponential_or_zero(block.get(from + k * from_stride, i) - top[i]);
      sum[i] += e;
      block.put(to + k * to_stride, i, e);
    }
  for (int i = 0; i < N; ++i) sum[i] = 1.f / sum[i];
  for (size_t k = 0; k < axis; ++k)
    for (int i = 0; i < N; ++i)
      block.put(to + k * to_stride, i, block.get(to + k * to_stride, i) * sum[i]);
}

void softmax_columns(const float* from, size_t from_stride, float* to, size_t to_stride,
                     size_t axis, size_t inner, bool log) {
  each_block(from, to, inner, [&](const float* x, float* y, const auto& block) {
    softmax_block(x, from_stride, y, to_stride, axis, log, block);
  });
}

template <class F>
inline Vec extreme(const float* from, size_t axis, F better) {
  Vec best = splat(from[0]);
  size_t k = 0;
  for (; k + lanes <= axis; k += lanes) best = better(best, load(from + k));
  if (k < axis) best = better(best, join_lanes(load_some(from + k, axis - k), axis - k, best));
  return best;
}

void softmax_row(const float* from, float* to, size_t axis, bool log) {
  Vec tops = extreme(from, axis, [](Vec a, Vec b) { return at_least(a, b); });
  Vec top = splat(fold(tops, [](float a, float b) { return a < b ? b : a; }));
  if (log) {
    double sum = sum_row(from, axis, [=](Vec x) { return exponential_or_zero(x - top); });
    Vec shift = logarithm(splat(static_cast<float>(sum)));
    map_row(from, to, axis, [=](Vec x, size_t, size_t) { return x - top - shift; });
    return;
  }
  map_row(from, to, axis, [=](Vec x, size_t, size_t) { return exponential_or_zero(x - top); });
  auto scale = static_cast<float>(1 / sum_row(to, axis, [](Vec x) { return x; }));
  map_row(to, to, axis, [=](Vec x, size_t, size_t) { return x * scale; });
}

template <class Block>
inline void reduce_block(ReduceKind kind, const float* from, size_t stride, size_t axis, float* to,
                         const Block& block) {
  Vec result[N];
  if (kind == ReduceKind::sum || kind == ReduceKind::mean) {
    sum_columns(from, stride, axis, block, result, [](Vec x, int) { return x; });
    float scale = kind == ReduceKind::mean ? static_cast<float>(axis) : 1.f;
    for (int i = 0; i < N; ++i) block.put(to, i, result[i] / scale);
    return;
  }
  for (int i = 0; i < N; ++i) result[i] = block.get(from, i);
  for (size_t k = 1; k < axis; ++k)
    for (int i = 0; i < N; ++i) {
      Vec x = block.get(from + k * stride, i);
      result[i] = kind == ReduceKind::max ? larger(result[i], x) : smaller(result[i], x);
    }
  for (int i = 0; i < N; ++i) block.put(to, i, result[i]);
}

void reduce_columns(ReduceKind kind, const float* from, size_t stride, size_t axis, size_t inner,
                    float* to) {
  each_block(from, to, inner, [&](const float* x, float* y, const auto& block) {
    reduce_block(kind, x, stride, axis, y, block);
  });
}

float reduce_row(ReduceKind kind, const float* from, size_t axis) {
  if (kind == ReduceKind::max)
    return fold(extreme(from, axis, larger), [](float a, float b) { return b > a || b != b ? b : a; });
  if (kind == ReduceKind::min)
    return fold(extreme(from, axis, smaller), [](float a, float b) { return b < a || b != b ? b : a; });
  double sum = sum_row(from, axis, [](Vec x) { return x; });
  return static_cast<float>(kind == ReduceKind::mean ? sum / static_cast<double>(axis) : sum);
}

}  // namespace

const AxisKernels axis{static_cast<int>(wide), norm_columns,   norm_row,  softmax_columns,
                       softmax_row,            reduce_columns, reduce_row};

}  // namespace skinny::SKINNY_SET
