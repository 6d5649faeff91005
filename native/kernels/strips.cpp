#include "runtime/strips.h"

#include "vector.h"

namespace skinny::SKINNY_SET {
namespace {

#if defined(__AVX512F__)

static_assert(V == strip_rows);

inline Vec product(const SlotValues& values, const SlotColumns& columns, Vec low, Vec high, Vec sum) {
  __m512i column = _mm512_cvtepu8_epi32(
      _mm_load_si128(reinterpret_cast<const __m128i*>(columns.lane)));
  return _mm512_fmadd_ps(_mm512_load_ps(values.lane), _mm512_permutex2var_ps(low, column, high), sum);
}

Vec strip(const StripRows& weights, size_t index, const float* x) {
  const SlotValues* values = weights.values + weights.first_slot[index];
  const SlotColumns* columns = weights.columns + weights.first_slot[index];
  Vec even{}, odd{};
  for (uint32_t b = weights.first_block[index]; b < weights.first_block[index + 1]; ++b) {
    const float* at = x + weights.blocks[b].block * strip_columns;
    Vec low = load(at), high = load(at + V);
    for (uint32_t pair = weights.blocks[b].pairs; pair; --pair, values += 2, columns += 2) {
      even = product(values[0], columns[0], low, high, even);
      odd = product(values[1], columns[1], low, high, odd);
    }
  }
  return even + odd;
}

void one(const StripRows& weights, size_t begin, size_t end, const float* x, const float* bias,
         float* y) {
  for (size_t row = begin; row < end;) {
    size_t index = row / V, lane = row % V;
    size_t count = end - row < V - lane ? end - row : V - lane;
    Vec sum = strip(weights, index, x);
    if (count == V) {
      store(y + row, sum + load(bias + row));
    } else {
      float sums[V];
      store(sums, sum);
      for (size_t i = 0; i < count; ++i) y[row + i] = sums[lane + i] + bias[row + i];
    }
    row += count;
  }
}

#else

constexpr void (*one)(const StripRows&, size_t, size_t, const float*, const float*,
                      float*) = nullptr;

#endif

}  // namespace

const StripKernels strips{one};

}  // namespace skinny::SKINNY_SET
