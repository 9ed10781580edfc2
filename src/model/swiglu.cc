#include "model/swiglu.h"

namespace weft {

at::Tensor gate_of(const at::Tensor& gate_up) { return gate_up.narrow(1, 0, gate_up.size(1) / 2); }

at::Tensor up_of(const at::Tensor& gate_up) {
  const std::int64_t size = gate_up.size(1) / 2;
  return gate_up.narrow(1, size, size);
}

at::Tensor swiglu_forward(const at::Tensor& gate_up) {
  return at::silu(gate_of(gate_up)).mul_(up_of(gate_up));
}

void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& d_gate_up) {
  const at::Tensor gate = gate_of(gate_up);
  at::Tensor d_gate = gate_of(d_gate_up);  // d_h until the last line
  at::Tensor d_up = up_of(d_gate_up);
  at::silu_out(d_up, gate);
  d_up.mul_(d_gate);
  d_gate.mul_(up_of(gate_up));
  at::silu_backward_out(d_gate, d_gate, gate);
}

}  // namespace weft
