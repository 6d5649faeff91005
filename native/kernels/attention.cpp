#include "runtime/attention.h"

#include <math.h>

#include "functions.h"
#include "product.h"

namespace skinny::SKINNY_SET {
namespace {

// A panel of queries: its scores for a block of keys stay in the first-level cache.
constexpr int panel_vectors = 3;
constexpr size_t block_keys = V == 16 ? 128 : 256;

// What a panel of N vectors of queries works with: matrices of [..][N * V] floats, a query a column.
template <int N>
struct Panel {
  static constexpr size_t width = N * V;
  float* q;       // [features], scaled
  float* scores;  // [block_keys]
  float* sums;    // [value_features]: of values weighted so far
  size_t first, count;
  Vec top[N];    // the largest score of each query so far
  Vec total[N];  // of its weights so far, which are e^(score - top)
};

// The columns' entries `at`, `stride` floats apart, of V queries (or `count`, if fewer).
inline Vec gather(const float* at, size_t stride, size_t count) {
  if (stride == 0) return splat(*at);
  if (stride == 1) return count >= V ? load(at) : load_some(at, count);
  Vec v{};
  for (size_t i = 0; i < V && i < count; ++i) v[i] = at[i * stride];
  return v;
}

inline void scatter(Vec v, float* at, size_t stride, size_t count) {
  if (stride == 1) {
    if (count >= V) store(at, v);
    else store_some(at, v, count);
    return;
  }
  for (size_t i = 0; i < V && i < count; ++i) at[i * stride] = v[i];
}

template <int N>
void load_queries(const AttentionHead& head, Panel<N>& panel) {
  for (size_t d = 0; d < head.features; ++d)
    for (size_t i = 0; i < N; ++i) {
      const float* at = head.q + (panel.first + i * V) * head.q_query + d * head.q_feature;
      store(panel.q + d * panel.width + i * V,
            gather(at, head.q_query, panel.count - i * V) * head.scale);
    }
}

inline Vec lane_numbers() {
  Vec v;
  for (int i = 0; i < V; ++i) v[i] = static_cast<float>(i);
  return v;
}

// Adds the mask to the scores of keys [key, key + count).
template <int N>
void apply_mask(const AttentionHead& head, const Panel<N>& panel, size_t key, size_t count) {
  const Vec never = splat(-INFINITY);
  for (size_t j = 0; j < count; ++j)
    for (size_t i = 0; i < N; ++i) {
      float* at = panel.scores + j * panel.width + i * V;
      size_t query = panel.first + i * V;
      Vec score = load(at);
      if (head.causal && key + j > query) {  // lanes before this one are earlier queries
        float allowed = static_cast<float>(key + j - query);
        score = lane_numbers() >= splat(allowed) ? score : never;
      }
      if (head.mask) {
        Vec mask = gather(head.mask + query * head.mask_query + (key + j) * head.mask_key,
                          head.mask_query, panel.count - i * V);
        if (head.mask_selects) mask = (bits_of(mask) & 0x7fffffff) != 0 ? Vec{} : never;
        score += mask;
      }
      store(at, score);
    }
}

// Turns the scores of `count` keys into weights, and corrects the sums of former blocks, if any.
template <int N>
void weigh(const AttentionHead& head, Panel<N>& panel, size_t count, bool correct) {
  Vec top[N], shift[N], total[N] = {}, correction[N];
  for (int i = 0; i < N; ++i) top[i] = panel.top[i];
  for (size_t j = 0; j < count; ++j)
    for (int i = 0; i < N; ++i)
      top[i] = at_least(top[i], load(panel.scores + j * panel.width + i * V));
  for (int i = 0; i < N; ++i) {
    // While all scores are minus infinity, their weights are zero, not NaN.
    shift[i] = top[i] == splat(-INFINITY) ? Vec{} : top[i];
    correction[i] = exponential_or_zero(panel.top[i] - shift[i]);
    panel.top[i] = top[i];
  }
  for (size_t j = 0; j < count; ++j)
    for (int i = 0; i < N; ++i) {
      float* at = panel.scores + j * panel.width + i * V;
      Vec weight = exponential_or_zero(load(at) - shift[i]);
      store(at, weight);
      total[i] += weight;
    }
  for (int i = 0; i < N; ++i) panel.total[i] = panel.total[i] * correction[i] + total[i];
  if (!correct) return;
  for (size_t e = 0; e < head.value_features; ++e)
    for (int i = 0; i < N; ++i) {
      float* at = panel.sums + e * panel.width + i * V;
      store(at, load(at) * correction[i]);
    }
}

template <int N>
void store_results(const AttentionHead& head, const Panel<N>& panel) {
  Vec scale[N];
  for (int i = 0; i < N; ++i) scale[i] = 1.f / panel.total[i];
  for (size_t e = 0; e < head.value_features; ++e)
    for (int i = 0; i < N; ++i) {
      Vec result = load(panel.sums + e * panel.width + i * V) * scale[i];
      if (head.mask) result = panel.total[i] == 0.f ? Vec{} : result;
      size_t query = panel.first + static_cast<size_t>(i) * V;
      scatter(result, head.out + query * head.out_query + e * head.out_feature, head.out_query,
              panel.count - static_cast<size_t>(i) * V);
    }
}

template <int N>
void attend_panel(const AttentionHead& head, size_t first, size_t count, float* scratch) {
  constexpr size_t width = Panel<N>::width;
  Panel<N> panel{scratch,
                 scratch + head.features * width,
                 scratch + (head.features + block_keys) * width,
                 first, count, {}, {}};
  for (int i = 0; i < N; ++i) panel.top[i] = splat(-INFINITY), panel.total[i] = Vec{};
  load_queries(head, panel);
  size_t keys = head.causal && first + count < head.keys ? first + count : head.keys;
  for (size_t key = 0; key < keys; key += block_keys) {
    size_t some = keys - key < block_keys ? keys - key : block_keys;
    product_columns<N>({head.k + key * head.k_key, head.k_key, head.k_feature}, panel.q, width,
                       some, head.features, false, panel.scores, width);
    if (head.mask || (head.causal && key + some > first + 1)) apply_mask(head, panel, key, some);
    weigh(head, panel, some, key > 0);
    product_columns<N>({head.v + key * head.v_key, head.v_feature, head.v_key}, panel.scores,
                       width, head.value_features, some, key > 0, panel.sums, width);
  }
  store_results(head, panel);
}

void attend(const AttentionHead& head, size_t first, size_t count, float* scratch) {
  static_assert(panel_vectors == 3);
  auto panel = count > 2 * V ? attend_panel<3> : count > V ? attend_panel<2> : attend_panel<1>;
  panel(head, first, count, scratch);
}

size_t scratch(size_t features, size_t value_features) {
  return (features + block_keys + value_features) * panel_vectors * V;
}

}  // namespace

const AttentionKernels attention{V, panel_vectors, attend, scratch};

}  // namespace skinny::SKINNY_SET
