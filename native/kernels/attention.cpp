#include "runtime/attention.h"

#include <math.h>

#include "functions.h"
#include "product.h"

namespace skinny::SKINNY_SET {
namespace {

constexpr size_t block_queries = 64, block_keys = 64;
constexpr size_t max_vectors = block_queries / V;
static_assert(block_queries % panel_floats == 0);

// What a block of queries works with: matrices of [..][width] floats, a query a column.
struct Block {
  float* q;       // [features], scaled
  float* scores;  // [block_keys]
  float* sums;    // [value_features]: of values weighted so far
  size_t first, count, vectors, width;
  Vec top[max_vectors];    // the largest score of each query so far
  Vec total[max_vectors];  // of its weights so far, which are e^(score - top)
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

void load_queries(const AttentionHead& head, Block& block) {
  for (size_t d = 0; d < head.features; ++d)
    for (size_t i = 0; i < block.vectors; ++i) {
      const float* at = head.q + (block.first + i * V) * head.q_query + d * head.q_feature;
      store(block.q + d * block.width + i * V,
            gather(at, head.q_query, block.count - i * V) * head.scale);
    }
}

inline Vec lane_numbers() {
  Vec v;
  for (int i = 0; i < V; ++i) v[i] = static_cast<float>(i);
  return v;
}

// Adds the mask to the scores of keys [key, key + count).
void apply_mask(const AttentionHead& head, const Block& block, size_t key, size_t count) {
  const Vec never = splat(-INFINITY);
  for (size_t j = 0; j < count; ++j)
    for (size_t i = 0; i < block.vectors; ++i) {
      float* at = block.scores + j * block.width + i * V;
      size_t query = block.first + i * V;
      Vec score = load(at);
      if (head.causal && key + j > query) {  // lanes before this one are earlier queries
        float allowed = static_cast<float>(key + j - query);
        score = lane_numbers() >= splat(allowed) ? score : never;
      }
      if (head.mask) {
        Vec mask = gather(head.mask + query * head.mask_query + (key + j) * head.mask_key,
                          head.mask_query, block.count - i * V);
        if (head.mask_selects) mask = (bits_of(mask) & 0x7fffffff) != 0 ? Vec{} : never;
        score += mask;
      }
      store(at, score);
    }
}

// Turns the scores of `count` keys into weights, and corrects the sums of former blocks.
void weigh(const AttentionHead& head, Block& block, size_t count) {
  for (size_t i = 0; i < block.vectors; ++i) {
    float* scores = block.scores + i * V;
    Vec old = block.top[i], top = old;
    for (size_t j = 0; j < count; ++j) top = at_least(top, load(scores + j * block.width));
    // While all scores are minus infinity, their weights are zero, not NaN.
    Vec shift = top == splat(-INFINITY) ? Vec{} : top;
    Vec total{};
    for (size_t j = 0; j < count; ++j) {
      float* at = scores + j * block.width;
      Vec weight = exponential_or_zero(load(at) - shift);
      store(at, weight);
      total += weight;
    }
    Vec correction = exponential_or_zero(old - shift);
    block.top[i] = top;
    block.total[i] = block.total[i] * correction + total;
    for (size_t e = 0; e < head.value_features; ++e) {
      float* at = block.sums + e * block.width + i * V;
      store(at, load(at) * correction);
    }
  }
}

void store_results(const AttentionHead& head, const Block& block) {
  for (size_t i = 0; i < block.vectors; ++i) {
    Vec total = block.total[i];
    size_t query = block.first + i * V;
    for (size_t e = 0; e < head.value_features; ++e) {
      Vec result = load(block.sums + e * block.width + i * V) / total;
      if (head.mask) result = total == 0.f ? Vec{} : result;
      scatter(result, head.out + query * head.out_query + e * head.out_feature, head.out_query,
              block.count - i * V);
    }
  }
}

void attend(const AttentionHead& head, size_t first, size_t count, float* scratch) {
  size_t vectors = (count + V - 1) / V, width = vectors * V;
  Block block{scratch,
              scratch + head.features * width,
              scratch + (head.features + block_keys) * width,
              first, count, vectors, width, {}, {}};
  for (size_t i = 0; i < vectors; ++i) block.top[i] = splat(-INFINITY), block.total[i] = Vec{};
  load_queries(head, block);
  memset(block.sums, 0, head.value_features * width * sizeof(float));
  size_t keys = head.causal && first + count < head.keys ? first + count : head.keys;
  for (size_t key = 0; key < keys; key += block_keys) {
    size_t some = keys - key < block_keys ? keys - key : block_keys;
    product({head.k + key * head.k_key, head.k_key, head.k_feature}, block.q, width, some, vectors,
            head.features, false, block.scores, width);
    if (head.mask || (head.causal && key + some > first + 1)) apply_mask(head, block, key, some);
    weigh(head, block, some);
    product({head.v + key * head.v_key, head.v_feature, head.v_key}, block.scores, width,
            head.value_features, vectors, some, true, block.sums, width);
  }
  store_results(head, block);
}

size_t scratch(size_t features, size_t value_features) {
  return (features + block_keys + value_features) * block_queries;
}

}  // namespace

const AttentionKernels attention{block_queries, panel_floats, attend, scratch};

}  // namespace skinny::SKINNY_SET
