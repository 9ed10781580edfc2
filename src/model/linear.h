// Linear: y = x W^T without bias, its two backward halves, and fused forms that add to what is
// there.
//
// The weight gradient is added straight into the flat gradient buffer, of which `gradient` is a
// view. Letters: T rows, I inputs, O outputs.
#pragma once

#include <utility>

#include "tensor/tensor.h"

namespace weft {

class Linear {
 public:
  // weight [O, I] as Hugging Face stores it; gradient [O, I].
  Linear(at::Tensor weight, at::Tensor gradient)
      : weight_(std::move(weight)), gradient_(std::move(gradient)) {}

  at::Tensor forward(const at::Tensor& x) const;  // x [T, I] -> [T, O]
  at::Tensor add_forward(const at::Tensor& residual,
                         const at::Tensor& x) const;       // residual + y, [T, O]
  at::Tensor backward_input(const at::Tensor& d_y) const;  // d_y [T, O] -> d_x [T, I]
  void add_backward_input(at::Tensor& d_x, const at::Tensor& d_y) const;  // d_x [T, I] += its share
  void backward_weight(const at::Tensor& x, const at::Tensor& d_y);       // gradient += d_y^T x

 private:
  at::Tensor weight_;
  at::Tensor gradient_;
};

}  // namespace weft
