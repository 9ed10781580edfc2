// SwiGLU: h = silu(gate) * up (Shazeer 2020), the nonlinearity of the feed-forward. It has no
// weights, so it has one backward only. Letters: T rows, F feed-forward size.
#pragma once

#include "tensor/tensor.h"

namespace weft {

// A row's gate and up lie side by side in one tensor [T, 2 F], as one product makes them. Views:
at::Tensor gate_of(const at::Tensor& gate_up);  // [T, F]
at::Tensor up_of(const at::Tensor& gate_up);    // [T, F]

// gate_up [T, 2 F] -> h [T, F]
at::Tensor swiglu_forward(const at::Tensor& gate_up);
// On entry gate_of(d_gate_up) holds d_h [T, F] and the rest nothing; on return d_gate_up [T, 2 F]
// is the gradient of gate_up.
void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& d_gate_up);

}  // namespace weft
