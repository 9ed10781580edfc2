#include "model/swiglu.h"

namespace weft {

at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate).mul_(up);
}

SwiGluGradients swiglu_backward(const at::Tensor& gate, const at::Tensor& up,
                                const at::Tensor& d_h) {
  at::Tensor d_up = at::silu(gate).mul_(d_h);
  at::Tensor d_gate = at::silu_backward(at::mul(d_h, up), gate);
  return {.d_gate = std::move(d_gate), .d_up = std::move(d_up)};
}

}  // namespace weft
