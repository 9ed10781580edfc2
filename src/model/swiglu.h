// SwiGLU: h = silu(gate) * up (Shazeer 2020), the nonlinearity of the feed-forward. It has no
// weights, so it has one backward only. Letters: T rows, F feed-forward size.
#pragma once

#include "tensor/tensor.h"

namespace weft {

struct SwiGluGradients {
  at::Tensor d_gate;  // [T, F]
  at::Tensor d_up;    // [T, F]
};

// gate, up [T, F] -> h [T, F]
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);
// The memory of d_h [T, F] becomes d_gate.
SwiGluGradients swiglu_backward(const at::Tensor& gate, const at::Tensor& up, at::Tensor d_h);

}  // namespace weft
