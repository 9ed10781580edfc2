// Row-major matrix products on strided tiles, one overload per dtype. Pointers, strides and sizes
// of one tile only; 64-bit offsets to the tile are the caller's.
#pragma once

#include <cblas.h>

#include <cstdint>

namespace weft {

template <class T>
struct MatrixTile {
  T* data = nullptr;
  std::int64_t stride = 0;  // elements between rows
  bool transposed = false;
};

// c[m, n] = alpha * a[m, k] b[k, n] + beta * c, where a and b may be transposed views of their
// memory.
struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0;
};

inline CBLAS_TRANSPOSE transpose_flag(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

inline void multiply(const ProductSize& size, float alpha, const MatrixTile<const float>& a,
                     const MatrixTile<const float>& b, float beta, const MatrixTile<float>& c) {
  cblas_sgemm(CblasRowMajor, transpose_flag(a.transposed), transpose_flag(b.transposed),
              static_cast<int>(size.m), static_cast<int>(size.n), static_cast<int>(size.k), alpha,
              a.data, static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), beta, c.data,
              static_cast<int>(c.stride));
}

inline void multiply(const ProductSize& size, double alpha, const MatrixTile<const double>& a,
                     const MatrixTile<const double>& b, double beta, const MatrixTile<double>& c) {
  cblas_dgemm(CblasRowMajor, transpose_flag(a.transposed), transpose_flag(b.transposed),
              static_cast<int>(size.m), static_cast<int>(size.n), static_cast<int>(size.k), alpha,
              a.data, static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), beta, c.data,
              static_cast<int>(c.stride));
}

}  // namespace weft
