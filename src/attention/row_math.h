// Elementwise arithmetic on one row of a score tile, in the widest vectors that the processor has.
//
// Products go through BLAS; what is left of attention is exp, and in baseline x86-64 it would cost
// as much as they do. The same C++ is compiled once per instruction set and chosen when a kernel
// starts. No state.
#pragma once

#include <cstdint>

namespace weft {

template <class T>
struct RowMath {
  // Largest of values[0, size), -inf when size is 0; NaNs may be overlooked (exp_row brings them
  // back).
  T (*largest)(const T* values, std::int64_t size);
  // values[i] = exp(values[i] - shift); returns their sum. REQUIRES shift finite or NaN.
  // float: a polynomial with relative error below 2e-7, results below 2^-126 become 0; double:
  // std::exp.
  T (*exp_row)(T* values, std::int64_t size, T shift);
  // d_weights[i] = scale * weights[i] * (d_weights[i] - delta).
  void (*d_score_row)(const T* weights, T* d_weights, std::int64_t size, T delta, T scale);
};

template <class T>
RowMath<T> row_math();

}  // namespace weft
