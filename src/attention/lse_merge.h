// The merge of two partial attention results by log-sum-exp (design section 3 "Attention over a
// group").
//
// A partial is (out, lse): out is the softmax-weighted mean of the values of some keys, lse the
// natural logarithm of the sum of exp(score) over the same keys. A partial over no keys is (0,
// -inf) and changes nothing. No difference of two lse values, however large, overflows: only exp of
// numbers <= 0 is taken.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace weft {

template <class T>
struct MergeWeights {
  T lse = 0;      // of the union of keys
  T current = 0;  // weight of the partial that was there
  T incoming = 0;
};

template <class T>
MergeWeights<T> merge_weights(T current_lse, T incoming_lse) {
  constexpr T kNoKeys = -std::numeric_limits<T>::infinity();
  if (incoming_lse == kNoKeys) return {current_lse, T(1), T(0)};
  if (current_lse == kNoKeys) return {incoming_lse, T(0), T(1)};
  // A NaN on either side reaches all three results: a non-finite step must stay visible.
  const bool incoming_larger = incoming_lse > current_lse;
  const T larger = incoming_larger ? incoming_lse : current_lse;
  const T smaller = incoming_larger ? current_lse : incoming_lse;
  const T ratio = std::exp(smaller - larger);
  const T weight_of_larger = 1 / (1 + ratio);
  const T weight_of_smaller = ratio / (1 + ratio);
  const T lse = larger + std::log1p(ratio);
  if (incoming_larger) return {lse, weight_of_smaller, weight_of_larger};
  return {lse, weight_of_larger, weight_of_smaller};
}

// out and lse: the partial of one query row and head, updated. `incoming` holds `incoming_scale`
// times the incoming out: kernels pass unnormalised sums and the reciprocal of their weight. A
// partial with weight 0 is not read.
template <class T>
void merge_row(T* out, T& lse, const T* incoming, T incoming_scale, T incoming_lse,
               std::int64_t head_dim) {
  const MergeWeights<T> weights = merge_weights(lse, incoming_lse);
  lse = weights.lse;
  if (weights.incoming == 0) return;
  const T scale = weights.incoming * incoming_scale;
  if (weights.current == 0) {
    for (std::int64_t d = 0; d < head_dim; ++d) out[d] = scale * incoming[d];
    return;
  }
  for (std::int64_t d = 0; d < head_dim; ++d) {
    out[d] = weights.current * out[d] + scale * incoming[d];
  }
}

}  // namespace weft
