// Linear: y = x W^T without bias, its two backward halves, and a fused form that adds to what is
// there.
//
// The weight gradient is added straight into the flat gradient buffer, of which `gradient` is a
// view. Letters: T rows, I inputs, O outputs.
#pragma once

#include <string_view>
#include <utility>

#include "base/operation_trace.h"
#include "tensor/tensor.h"

namespace weft {

class Linear {
 public:
  // weight [O, I] as Hugging Face stores it; gradient [O, I].
  Linear(at::Tensor weight, at::Tensor gradient, OperationSite site = {})
      : weight_(std::move(weight)), gradient_(std::move(gradient)), site_(site) {}

  at::Tensor forward(const at::Tensor& x) const;  // x [T, I] -> [T, O]
  at::Tensor add_forward(const at::Tensor& residual,
                         const at::Tensor& x) const;       // residual + y, [T, O]
  at::Tensor backward_input(const at::Tensor& d_y) const;  // d_y [T, O] -> d_x [T, I]
  // The same into d_x [T, I], whose rows may lie apart.
  void backward_input(const at::Tensor& d_y, at::Tensor d_x) const;
  void backward_weight(const at::Tensor& x, const at::Tensor& d_y);  // gradient += d_y^T x

 private:
  OperationScope product(const at::Tensor& rows, std::string_view pass) const;

  at::Tensor weight_;
  at::Tensor gradient_;
  OperationSite site_;
};

}  // namespace weft
