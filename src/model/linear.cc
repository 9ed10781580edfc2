#include "model/linear.h"

namespace weft {

OperationScope Linear::product(const at::Tensor& rows, std::string_view pass) const {
  return {site_, OperationKind::kProduct, pass, 2 * rows.size(0) * weight_.numel()};
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const OperationScope scope = product(x, "forward");
  return at::mm(x, weight_.t());
}

at::Tensor Linear::add_forward(const at::Tensor& residual, const at::Tensor& x) const {
  const OperationScope scope = product(x, "forward");
  return at::addmm(residual, x, weight_.t());
}

at::Tensor Linear::backward_input(const at::Tensor& d_y) const {
  const OperationScope scope = product(d_y, "backward_input");
  return at::mm(d_y, weight_);
}

void Linear::backward_input(const at::Tensor& d_y, at::Tensor d_x) const {
  const OperationScope scope = product(d_y, "backward_input");
  at::mm_out(d_x, d_y, weight_);
}

void Linear::backward_weight(const at::Tensor& x, const at::Tensor& d_y) {
  const OperationScope scope = product(d_y, "backward_weight");
  gradient_.addmm_(d_y.t(), x);
}

}  // namespace weft
