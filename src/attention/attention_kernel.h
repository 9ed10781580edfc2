// AttentionKernel: causal attention of one run of queries against one run of keys, as partial
// results.
//
// Both runs are consecutive positions of the same sequence; a query at position p sees keys at
// positions <= p. Works on raw strided memory and 64-bit offsets; knows no tensor, plan or rank.
// Two implementations: `reference` (plain loops, float and double, the readable truth) and
// `blocked` (cache blocks and SIMD micro-kernels of our own). Letters: Q query rows, S key rows, H
// query heads, K key/value heads, D head_dim.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace weft {

// Element (row, head, d) is data[row * row_stride + head * D + d].
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t row_stride = 0;
};

// Element (head, row) is data[head * head_stride + row].
template <class T>
struct RowStats {
  T* data = nullptr;
  std::int64_t head_stride = 0;
};

// One pair of runs. q_begin and k_begin are positions inside the sequence.
template <class T>
struct ForwardPair {
  HeadRows<const T> q;  // [Q, H, D]
  HeadRows<const T> k;  // [S, K, D]
  HeadRows<const T> v;  // [S, K, D]
  std::int64_t q_begin = 0;
  std::int64_t k_begin = 0;
  double scale = 1;
  // In and out: the partial result so far; the pair is merged into it by log-sum-exp. The neutral
  // partial has out = 0 and lse = -inf.
  HeadRows<T> out;  // [Q, H, D]
  RowStats<T> lse;  // [H, Q]
};

// What a call's backward begins with, for all rows at once.
template <class T>
struct BackwardStart {
  std::int64_t num_rows = 0;   // T
  std::int64_t num_heads = 0;  // H
  std::int64_t head_dim = 0;   // D
  const T* out = nullptr;      // [T, H, D], contiguous, final
  const T* d_out = nullptr;    // [T, H, D], contiguous
  RowStats<T> delta;           // [H, T], written: sum over D of out * d_out
  T* gradients = nullptr;      // [T, gradients_row], contiguous, set to 0
  std::int64_t gradients_row = 0;
};

template <class T>
struct BackwardPair {
  HeadRows<const T> q;      // [Q, H, D]
  HeadRows<const T> k;      // [S, K, D]
  HeadRows<const T> v;      // [S, K, D]
  HeadRows<const T> d_out;  // [Q, H, D]
  RowStats<const T> lse;    // [H, Q], final
  RowStats<const T> delta;  // [H, Q], sum over D of out * d_out
  std::int64_t q_begin = 0;
  std::int64_t k_begin = 0;
  double scale = 1;
  HeadRows<T> d_q;  // [Q, H, D], added to
  HeadRows<T> d_k;  // [S, K, D], added to (summed over the query heads that share a key head)
  HeadRows<T> d_v;  // [S, K, D], added to
};

// Thread-safe. Each call takes any number of pairs, of which no two write the same rows: a kernel
// may compute them at the same time. Results do not depend by one bit on the number of threads, nor
// on which pairs come together in a call.
class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  virtual std::string_view name() const = 0;  // "reference", "blocked"
  virtual void forward(std::span<const ForwardPair<float>> pairs) const = 0;
  virtual void forward(std::span<const ForwardPair<double>> pairs) const = 0;
  virtual void start_backward(const BackwardStart<float>& start) const = 0;
  virtual void start_backward(const BackwardStart<double>& start) const = 0;
  virtual void backward(std::span<const BackwardPair<float>> pairs) const = 0;
  virtual void backward(std::span<const BackwardPair<double>> pairs) const = 0;

  template <class T>
  void forward(const ForwardPair<T>& pair) const {
    forward(std::span<const ForwardPair<T>>(&pair, 1));
  }
  template <class T>
  void backward(const BackwardPair<T>& pair) const {
    backward(std::span<const BackwardPair<T>>(&pair, 1));
  }
};

std::unique_ptr<AttentionKernel> make_reference_kernel();
// Computes with `num_threads` threads, the caller among them.
std::unique_ptr<AttentionKernel> make_blocked_kernel(int num_threads = 1);
// By name; UserError lists the names.
std::unique_ptr<AttentionKernel> make_attention_kernel(std::string_view name, int num_threads = 1);

}  // namespace weft
