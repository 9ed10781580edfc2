// What both kernels share: element addresses in 64 bits, the causal edge, and the check of a pair's
// shapes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention_kernel.h"
#include "base/error.h"

namespace weft {

// 64-bit throughout: a pack of 2^31 elements is an ordinary size.
template <class T>
T* head_row(const HeadRows<T>& rows, std::int64_t row, std::int64_t head) {
  return rows.data + row * rows.row_stride + head * rows.head_dim;
}

template <class T>
T& row_stat(const RowStats<T>& stats, std::int64_t head, std::int64_t row) {
  return stats.data[head * stats.head_stride + row];
}

// Number of leading keys of the run that the query at `q_position` sees: 0..num_keys.
inline std::int64_t num_visible_keys(std::int64_t q_position, std::int64_t k_begin,
                                     std::int64_t num_keys) {
  return std::clamp<std::int64_t>(q_position - k_begin + 1, 0, num_keys);
}

template <class T, class U>
void check_same_rows(const HeadRows<T>& expected, const HeadRows<U>& got, const char* what) {
  WEFT_CHECK(expected.num_rows == got.num_rows && expected.num_heads == got.num_heads &&
                 expected.head_dim == got.head_dim,
             "attention kernel: {} must be [{}, {}, {}], got [{}, {}, {}]", what, expected.num_rows,
             expected.num_heads, expected.head_dim, got.num_rows, got.num_heads, got.head_dim);
  WEFT_CHECK(got.num_rows <= 1 || got.row_stride >= got.num_heads * got.head_dim,
             "attention kernel: {} has row stride {}, too small for {} heads of {}", what,
             got.row_stride, got.num_heads, got.head_dim);
}

template <class T>
void check_pair(const HeadRows<T>& q, const HeadRows<T>& k, const HeadRows<T>& v) {
  WEFT_CHECK(q.num_rows >= 0 && k.num_rows >= 0 && q.num_heads >= 1 && k.num_heads >= 1 &&
                 q.head_dim >= 1 && q.num_heads % k.num_heads == 0 && q.head_dim == k.head_dim,
             "attention kernel: q [{}, {}, {}] does not fit k [{}, {}, {}]: the heads of q must be "
             "a multiple of those of k, head_dim equal",
             q.num_rows, q.num_heads, q.head_dim, k.num_rows, k.num_heads, k.head_dim);
  check_same_rows(q, q, "q");
  check_same_rows(k, k, "k");
  check_same_rows(k, v, "v");
}

template <class T>
void check_pair(const ForwardPair<T>& pair) {
  check_pair(pair.q, pair.k, pair.v);
  check_same_rows(pair.q, pair.out, "out");
}

template <class T>
void check_pair(const BackwardPair<T>& pair) {
  check_pair(pair.q, pair.k, pair.v);
  check_same_rows(pair.q, pair.d_out, "d_out");
  check_same_rows(pair.q, pair.d_q, "d_q");
  check_same_rows(pair.k, pair.d_k, "d_k");
  check_same_rows(pair.k, pair.d_v, "d_v");
}

}  // namespace weft
