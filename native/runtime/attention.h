// Scaled dot-product attention of one head.
#pragma once

#include <cstddef>

#include "isa.h"

namespace skinny {

// out[t][e] = sum over s of softmax over s(scale * q[t] . k[s] + mask[t][s]) v[s][e].
//
// A head's matrices have any strides; queries that are neighbours in `q` and `out` are the fast
// case. A mask that `selects` has cells that are zero (as float or integer: all bits but the sign)
// where a query must not look; any other one is added. causal: query t sees keys 0 to t.
//
// Where all scores of a query are minus infinity, its result is zero if there is a mask, else NaN.
// Where one is infinite or NaN it is NaN.
struct AttentionHead {
  const float* q;
  size_t q_query, q_feature;
  const float* k;
  size_t k_key, k_feature;
  const float* v;
  size_t v_key, v_feature;
  const float* mask;  // or null
  size_t mask_query, mask_key;
  float* out;
  size_t out_query, out_feature;
  size_t queries, keys, features, value_features;
  float scale;
  bool mask_selects, causal;
};

struct AttentionKernels {
  size_t lanes, vectors;  // queries are computed in vectors of `lanes`, at most `vectors` together
  // Of `count` queries, at most lanes * vectors, from `first` on. Scores exist for a block of keys
  // at a time: the softmax is corrected when a later block has a larger score.
  void (*attend)(const AttentionHead& head, size_t first, size_t count, float* scratch);
  size_t (*scratch)(size_t features, size_t value_features);  // floats
};

}  // namespace skinny

SKINNY_DECLARE_KERNELS(AttentionKernels, attention)
