#include "runtime/recurrent.h"

#include "functions.h"

namespace skinny::SKINNY_SET {
namespace {

// Calls f(k, count) for vectors of `count` entries from k on.
template <class F>
inline void each(size_t size, F f) {
  for (size_t k = 0; k < size; k += V) f(k, size - k < V ? size - k : size_t{V});
}

void lstm(const float* x, const float* r, size_t size, float* h, float* c) {
  each(size, [=](size_t k, size_t count) {
    auto gate = [=](size_t at) {
      return load_some(x + at * size + k, count) + load_some(r + at * size + k, count);
    };
    Vec next = sigmoid(gate(1)) * load_some(c + k, count) + sigmoid(gate(0)) * tangent(gate(2));
    store_some(c + k, next, count);
    store_some(h + k, sigmoid(gate(3)) * tangent(next), count);
  });
}

void gru(const float* x, const float* r, size_t size, float* h) {
  each(size, [=](size_t k, size_t count) {
    auto of = [=](const float* gates, size_t at) { return load_some(gates + at * size + k, count); };
    Vec reset = sigmoid(of(x, 0) + of(r, 0)), z = sigmoid(of(x, 1) + of(r, 1));
    Vec fresh = tangent(of(x, 2) + reset * of(r, 2));
    store_some(h + k, (1.f - z) * fresh + z * load_some(h + k, count), count);
  });
}

}  // namespace

const RecurrentKernels recurrent{lstm, gru};

}  // namespace skinny::SKINNY_SET
