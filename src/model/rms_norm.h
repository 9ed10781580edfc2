// RmsNorm: y = x / rms(x) * gain, with rms(x) = sqrt(mean(x^2) + eps) over the hidden dim (Zhang,
// Sennrich 2019).
//
// Forward keeps only 1 / rms per row; y is computed again where backward needs it. Accumulation
// dtype: that of x. Letters: T rows, E hidden_size.
#pragma once

#include <utility>

#include "base/operation_trace.h"
#include "tensor/tensor.h"

namespace weft {

class RmsNorm {
 public:
  // gain [E], gradient [E].
  RmsNorm(at::Tensor gain, at::Tensor gradient, double eps, OperationSite site = {})
      : gain_(std::move(gain)), gradient_(std::move(gradient)), eps_(eps), site_(site) {}

  at::Tensor reciprocal_rms(const at::Tensor& x) const;                   // x [T, E] -> rstd [T, 1]
  at::Tensor forward(const at::Tensor& x, const at::Tensor& rstd) const;  // -> y [T, E]
  // d_y [T, E] -> d_x [T, E]
  at::Tensor backward_input(const at::Tensor& x, const at::Tensor& rstd,
                            const at::Tensor& d_y) const;
  void backward_weight(const at::Tensor& x, const at::Tensor& rstd, const at::Tensor& d_y);

 private:
  at::Tensor gain_;
  at::Tensor gradient_;
  double eps_;
  OperationSite site_;
};

}  // namespace weft
