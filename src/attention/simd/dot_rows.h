// Dot products of matching rows of two tensors, in vectors.
#pragma once

#include <cstdint>

namespace weft {

struct RowsShape {
  std::int64_t num_rows = 0;   // T
  std::int64_t num_heads = 1;  // H
  std::int64_t head_dim = 1;   // D
};

// sums[h, t] = sum over D of a[t, h] * b[t, h]; a and b [T, H, D], sums [H, T], all contiguous.
void dot_rows(const float* a, const float* b, const RowsShape& shape, float* sums);
void dot_rows(const double* a, const double* b, const RowsShape& shape, double* sums);

}  // namespace weft
