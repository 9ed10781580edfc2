#include "optim/adamw_kernel.h"

#include <cmath>

namespace weft {

// The change is formed first and subtracted once: 1 - lr * weight_decay would lose most of a small
// decay to rounding in float.
template <class T>
void adamw_update(const AdamWElements<T>& elements, std::int64_t size, AdamWFactors<T> factors) {
  T* __restrict values = elements.values;
  const T* __restrict gradients = elements.gradients;
  T* __restrict first_moments = elements.first_moments;
  T* __restrict second_moments = elements.second_moments;
  for (std::int64_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] * factors.gradient_scale;
    const T first = factors.beta1 * first_moments[i] + factors.one_minus_beta1 * gradient;
    const T second =
        factors.beta2 * second_moments[i] + factors.one_minus_beta2 * gradient * gradient;
    first_moments[i] = first;
    second_moments[i] = second;
    const T direction = first / (std::sqrt(second) * factors.second_correction + factors.eps);
    values[i] -= factors.step_size * direction + factors.decay * values[i];
  }
}

template void adamw_update(const AdamWElements<float>&, std::int64_t, AdamWFactors<float>);
template void adamw_update(const AdamWElements<double>&, std::int64_t, AdamWFactors<double>);

}  // namespace weft
