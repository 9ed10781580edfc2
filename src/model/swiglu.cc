#include "model/swiglu.h"

namespace weft {

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate).mul_(up);
}

SwiGluGradients swiglu_backward(const at::Tensor& gate, const at::Tensor& up, at::Tensor d_h) {
  at::Tensor d_up = at::silu(gate).mul_(d_h);
  d_h.mul_(up);
  at::silu_backward_out(d_h, d_h, gate);
  return {.d_gate = std::move(d_h), .d_up = std::move(d_up)};
}

}  // namespace weft
