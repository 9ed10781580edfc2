// Central finite differences in double: the oracle that knows nothing of how a backward is written.
#pragma once

#include <functional>

#include "tensor/tensor.h"

namespace weft::testing {

// d f / d x for every element of x (contiguous, double); f reads x where it lies.
inline at::Tensor finite_difference(const std::function<double()>& f, const at::Tensor& x) {
  constexpr double kStep = 1e-5;
  at::Tensor gradient = at::empty_like(x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double& element = x.data_ptr<double>()[i];
    const double centre = element;
    element = centre + kStep;
    const double above = f();
    element = centre - kStep;
    const double below = f();
    element = centre;
    gradient.data_ptr<double>()[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// Largest difference relative to the larger of 1 and the largest reference element.
inline double relative_difference(const at::Tensor& value, const at::Tensor& reference) {
  if (reference.numel() == 0) return 0;
  const double scale = std::max(1.0, reference.abs().max().item<double>());
  return (value - reference).abs().max().item<double>() / scale;
}

inline constexpr double kFiniteDifferenceError = 1e-8;  // of kStep, for functions of size 1
inline constexpr double kRoundingError = 1e-12;

}  // namespace weft::testing
