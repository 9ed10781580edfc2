#include "model/rms_norm.h"

namespace weft {

at::Tensor RmsNorm::reciprocal_rms(const at::Tensor& x) const {
  const OperationScope scope(site_, OperationKind::kElementwise, "forward");
  at::Tensor mean_square = at::linalg_vector_norm(x, 2, {-1}, /*keepdim=*/true).square_();
  return mean_square.div_(static_cast<double>(x.size(-1))).add_(eps_).rsqrt_();
}

at::Tensor RmsNorm::forward(const at::Tensor& x, const at::Tensor& rstd) const {
  const OperationScope scope(site_, OperationKind::kElementwise, "forward");
  return at::mul(x, rstd).mul_(gain_);
}

at::Tensor RmsNorm::backward_input(const at::Tensor& x, const at::Tensor& rstd,
                                   const at::Tensor& d_y) const {
  const OperationScope scope(site_, OperationKind::kElementwise, "backward_input");
  // With n = x * rstd: d_n = d_y * gain, d_x = rstd * (d_n - n * mean(d_n * n)).
  at::Tensor d_x = at::mul(d_y, gain_);                              // d_n
  const at::Tensor dot = at::mul(d_x, x).sum(-1, /*keepdim=*/true);  // [T, 1]
  const at::Tensor pull = dot.mul_(rstd).mul_(rstd).div_(static_cast<double>(x.size(-1)));
  return d_x.addcmul_(x, pull, -1).mul_(rstd);
}

void RmsNorm::backward_weight(const at::Tensor& x, const at::Tensor& rstd, const at::Tensor& d_y) {
  const OperationScope scope(site_, OperationKind::kElementwise, "backward_weight");
  gradient_.add_(at::mul(x, rstd).mul_(d_y).sum(0));
}

}  // namespace weft
