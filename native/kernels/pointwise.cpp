#include "runtime/pointwise.h"

#include "functions.h"

namespace skinny::SKINNY_SET {
namespace {

template <class F>
inline void each(const float* from, float* to, size_t count, F f) {
  size_t i = 0;
  for (; i + V <= count; i += V) store(to + i, f(load(from + i)));
  if (i < count) store_some(to + i, f(load_some(from + i, count - i)), count - i);
}

void activate(const Activation& activation, const float* from, float* to, size_t count) {
  float a = activation.a, b = activation.b;
  switch (activation.kind) {
    case ActivationKind::none:
      if (from != to) memcpy(to, from, count * sizeof(float));
      break;
    case ActivationKind::clamp:
      each(from, to, count, [=](Vec x) { return at_most(at_least(x, splat(a)), splat(b)); });
      break;
    case ActivationKind::leaky_relu:
      each(from, to, count, [=](Vec x) { return x < 0.f ? x * a : x; });
      break;
    case ActivationKind::elu:
      each(from, to, count, [=](Vec x) { return x < 0.f ? a * exponential_less_one(x) : x; });
      break;
    case ActivationKind::sigmoid:
      each(from, to, count, [](Vec x) { return sigmoid(x); });
      break;
    case ActivationKind::tanh:
      each(from, to, count, [](Vec x) { return tangent(x); });
      break;
    case ActivationKind::silu:
      each(from, to, count, fast_silu);
      break;
    case ActivationKind::gelu:
      each(from, to, count, [](Vec x) { return gelu(x); });
      break;
    case ActivationKind::gelu_tanh:
      each(from, to, count, [](Vec x) { return gelu_by_tangent(x); });
      break;
    case ActivationKind::hardswish:
      each(from, to, count, [](Vec x) { return x * hard_sigmoid(x); });
      break;
    case ActivationKind::hardsigmoid:
      each(from, to, count, [](Vec x) { return hard_sigmoid(x); });
      break;
  }
}

void add(const float* a, const float* b, float* to, size_t count) {
  size_t i = 0;
  for (; i + V <= count; i += V) store(to + i, load(a + i) + load(b + i));
  for (; i < count; ++i) to[i] = a[i] + b[i];
}

void scale(const float* from, float* to, size_t count, float factor, float shift) {
  each(from, to, count, [=](Vec x) { return x * factor + shift; });
}

// base^-beta; 3/4, AlexNet's exponent, without a logarithm.
inline Vec inverse_power(Vec base, float beta) {
  if (beta == 0.75f) {
    Vec half = root(base);
    return 1.f / (half * root(half));
  }
  return power(base, splat(-beta));
}

// One vector of positions, of all channels. PyTorch's window: size / 2 channels before, (size - 1) / 2
// after. get(c), set(c, v): a channel. Size: 5, whose squares stay in registers; 0: any.
template <size_t Size, class Get, class Set>
inline void normalise(size_t channels, size_t any_size, float alpha, float beta, float k, Get get,
                      Set set) {
  const size_t size = Size ? Size : any_size, before = size / 2, after = (size - 1) / 2;
  auto finish = [&](size_t c, Vec squares) {
    set(c, get(c) * inverse_power(squares * (alpha / static_cast<float>(size)) + k, beta));
  };
  if (size > max_lrn_in_place) {
    for (size_t c = 0; c < channels; ++c) {
      size_t first = c < before ? 0 : c - before;
      size_t last = c + after < channels ? c + after : channels - 1;
      Vec squares{};
      for (size_t i = first; i <= last; ++i) squares += get(i) * get(i);
      finish(c, squares);
    }
    return;
  }
  // The squares of a window: nothing is read of channels that are written already.
  Vec square[Size ? Size : max_lrn_in_place] = {};
  auto read = [&](size_t c) {
    for (size_t i = 0; i + 1 < size; ++i) square[i] = square[i + 1];
    Vec v = c < channels ? get(c) : Vec{};
    square[size - 1] = v * v;
  };
  for (size_t c = 0; c < after; ++c) read(c);
  for (size_t c = 0; c < channels; ++c) {
    read(c + after);
    Vec squares = square[0];
    for (size_t i = 1; i < size; ++i) squares += square[i];
    finish(c, squares);
  }
}

void lrn(const float* from, float* to, size_t count, size_t channels, size_t channel_stride,
         int size, float alpha, float beta, float k) {
  constexpr size_t ahead = 16;  // floats: the next cache line
  for (size_t at = 0; at < count; at += V) {
    size_t lanes = count - at < static_cast<size_t>(V) ? count - at : static_cast<size_t>(V);
    auto get = [&](size_t c) { return load_some(from + c * channel_stride + at, lanes); };
    auto set = [&](size_t c, Vec v) {
      store_some(to + c * channel_stride + at, v, lanes);
      // Channels lie too far apart for the processor to see what comes next.
      __builtin_prefetch(from + c * channel_stride + at + ahead);
      __builtin_prefetch(to + c * channel_stride + at + ahead, 1);
    };
    if (size == 5)
      normalise<5>(channels, 5, alpha, beta, k, get, set);
    else
      normalise<0>(channels, static_cast<size_t>(size), alpha, beta, k, get, set);
  }
}

}  // namespace

const PointwiseKernels pointwise{activate, add, scale, lrn};

}  // namespace skinny::SKINNY_SET
