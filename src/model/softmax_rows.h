// Softmax cross-entropy of rows of logits, and its gradient in the memory of the logits: one visit
// of each row while it is in the cache.
//
// Sums run in the dtype of the logits over a fixed order of lanes; the loss itself is formed in
// double. NaN and +inf among the logits give a NaN loss, never a wrong finite one. Letters: R rows,
// V vocabulary.
#pragma once

#include <cstdint>

namespace weft {

template <class T>
struct SoftmaxRows {
  T* logits = nullptr;                    // [R, V]
  const std::int64_t* targets = nullptr;  // [R], each in [0, V)
  const double* weights = nullptr;        // [R]
  double* losses = nullptr;               // [R] written: weight * (lse(logits) - logits[target])
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;  // V >= 1
};

void softmax_losses(const SoftmaxRows<float>& rows);
void softmax_losses(const SoftmaxRows<double>& rows);
// The same losses; logits become weight * (softmax - one_hot(target)).
void softmax_gradients(const SoftmaxRows<float>& rows);
void softmax_gradients(const SoftmaxRows<double>& rows);

}  // namespace weft
