// Dot products of matching rows of two tensors.
//
// Each sums over D in ascending order with one multiply-add per element, as the products of the
// kernels do (product_inl.h): where attention's output is one value, as for a sequence's first
// token, d_out * out and d_out * v have the same bits, and the gradient of its key is exactly 0.
#pragma once

#include <cstdint>

#include "attention/attention_kernel.h"

namespace weft {

struct RowsShape {
  std::int64_t num_rows = 0;   // T
  std::int64_t num_heads = 1;  // H
  std::int64_t head_dim = 1;   // D
};

// sums(h, t) = sum over D of a[t, h] * b[t, h]; a and b [T, H, D], contiguous.
void dot_rows(const float* a, const float* b, const RowsShape& shape, const RowStats<float>& sums);
void dot_rows(const double* a, const double* b, const RowsShape& shape,
              const RowStats<double>& sums);

}  // namespace weft
