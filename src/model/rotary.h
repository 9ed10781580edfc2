// Rotary position embedding (Su et al. 2021) in the "rotate half" pairing of Hugging Face's Llama:
// element j of a head is turned together with element j + D/2 by the angle position *
// theta^(-2j/D).
//
// Angles are computed in double for every dtype: in fp32 the angle of position 10^6 is off by 0.03
// rad. Letters: T rows, N heads, D head_dim.
#pragma once

#include "tensor/tensor.h"

namespace weft {

struct RotaryTable {
  at::Tensor cos;  // [T, 1, D/2]
  at::Tensor sin;  // [T, 1, D/2]
};

// positions [T] int64.
RotaryTable make_rotary_table(const at::Tensor& positions, std::int64_t head_dim, double theta,
                              at::ScalarType dtype);

// Turns heads [T, N, D] in place.
void rotate(const at::Tensor& heads, const RotaryTable& table);
// Turns back: the transpose of rotate, hence also its backward.
void rotate_back(const at::Tensor& heads, const RotaryTable& table);

}  // namespace weft
