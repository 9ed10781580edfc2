// Raw, typed views of a micro-batch's tensors, from which a piece's rows are cut. All index
// arithmetic is 64-bit.
#pragma once

#include <cstdint>

#include "attention/attention_kernel.h"
#include "attention/attention_layout.h"

namespace weft {

// A [T, heads, head_dim] tensor; its rows may lie apart.
template <class T>
struct PackedRows {
  T* data = nullptr;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t row_stride = 0;  // elements from one row to the next

  std::int64_t row_size() const { return num_heads * head_dim; }
  T* row(std::int64_t index) const { return data + index * row_stride; }
  HeadRows<T> of(const PieceRows& piece) const {
    return {row(piece.row), piece.range.size(), num_heads, head_dim, row_stride};
  }
};

// A contiguous [heads, T] tensor.
template <class T>
struct PackedStats {
  T* data = nullptr;
  std::int64_t num_rows = 0;  // T

  RowStats<T> of(const PieceRows& piece) const { return {data + piece.row, num_rows}; }
};

// What a forward reads and writes; rows of a micro-batch.
template <class T>
struct ForwardRows {
  PackedRows<const T> q;  // [T, H, D]
  PackedRows<const T> k;  // [T, K, D]
  PackedRows<const T> v;  // [T, K, D]
  double scale = 1;
  PackedRows<T> out;   // [T, H, D]
  PackedStats<T> lse;  // [H, T]
};

template <class T>
struct BackwardRows {
  PackedRows<const T> q;       // [T, H, D]
  PackedRows<const T> k;       // [T, K, D]
  PackedRows<const T> v;       // [T, K, D]
  PackedRows<const T> d_out;   // [T, H, D]
  PackedStats<const T> lse;    // [H, T]
  PackedStats<const T> delta;  // [H, T]
  double scale = 1;
  PackedRows<T> d_q;  // [T, H, D]
  PackedRows<T> d_k;  // [T, K, D]
  PackedRows<T> d_v;  // [T, K, D]
};

}  // namespace weft
