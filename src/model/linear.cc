#include "model/linear.h"

namespace weft {

at::Tensor Linear::forward(const at::Tensor& x) const { return at::mm(x, weight_.t()); }

at::Tensor Linear::add_forward(const at::Tensor& residual, const at::Tensor& x) const {
  return at::addmm(residual, x, weight_.t());
}

at::Tensor Linear::backward_input(const at::Tensor& d_y) const { return at::mm(d_y, weight_); }

void Linear::add_backward_input(at::Tensor& d_x, const at::Tensor& d_y) const {
  d_x.addmm_(d_y, weight_);
}

void Linear::backward_weight(const at::Tensor& x, const at::Tensor& d_y) {
  gradient_.addmm_(d_y.t(), x);
}

}  // namespace weft
