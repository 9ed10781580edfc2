// The arithmetic of AdamW on plain memory: one pass, each element read and written once, no
// temporaries. Knows no tensor, so that it can be compiled with its own options.
#pragma once

#include <cstdint>

namespace weft {

// What all elements of one parameter share in one update.
template <class T>
struct AdamWFactors {
  T gradient_scale;
  T beta1, one_minus_beta1;
  T beta2, one_minus_beta2;
  T step_size;          // lr / (1 - beta1^t)
  T second_correction;  // 1 / sqrt(1 - beta2^t)
  T eps;
  T decay;  // lr * weight_decay, 0 where the parameter does not decay
};

// Four arrays of the same length that do not overlap.
template <class T>
struct AdamWElements {
  T* values;
  const T* gradients;
  T* first_moments;
  T* second_moments;
};

// Instantiated for float and double.
template <class T>
void adamw_update(const AdamWElements<T>& elements, std::int64_t size, AdamWFactors<T> factors);

}  // namespace weft
