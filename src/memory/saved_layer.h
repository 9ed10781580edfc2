// SavedLayer: what a decoder layer's forward leaves for its backward.
//
// Only what is expensive to compute again is kept; norms and the feed-forward's product are
// elementwise and are computed again in backward. Letters: T rows of the micro-batch, E
// hidden_size, H query heads, K key/value heads, D head_dim, F feed-forward size.
#pragma once

#include <array>

#include "base/units.h"
#include "tensor/tensor.h"

namespace weft {

struct SavedLayer {
  at::Tensor input;          // [T, E] residual stream before attention
  at::Tensor input_rstd;     // [T, 1] its reciprocal root mean square
  at::Tensor qkv;            // [T, (H + 2 K) D] of each row q and k, rotated, and v
  at::Tensor attention_out;  // [T, H, D]
  at::Tensor attention_lse;  // [H, T]
  at::Tensor middle;         // [T, E] residual stream between attention and feed-forward
  at::Tensor middle_rstd;    // [T, 1]
  at::Tensor gate_up;        // [T, 2 F] of each row gate, before SiLU, and up

  static constexpr std::size_t kNumTensors = 8;
  std::array<at::Tensor*, kNumTensors> tensors();  // in the order above; some may be undefined
  Bytes bytes() const;                             // of all tensors together
};

}  // namespace weft
