// The independent truth for attention: materialised scores and softmax in ATen, gradients by its
// autograd, in double. For small sizes only. Letters: Q queries, S keys, H heads, K key/value
// heads, D head_dim.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>

#include "attention/attention.h"
#include "tensor/tensor.h"

namespace weft {

struct HeadCounts {
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;
  std::int64_t head_dim = 1;
  AttentionShape shape() const { return {num_heads, num_kv_heads, head_dim}; }
  friend std::ostream& operator<<(std::ostream& out, const HeadCounts& heads) {
    return out << heads.num_heads << ":" << heads.num_kv_heads << "x" << heads.head_dim;
  }
};

inline at::Tensor random_tensor(std::uint64_t seed, at::IntArrayRef sizes,
                                at::ScalarType dtype = at::kDouble) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

struct DenseAttention {
  at::Tensor out;  // [Q, H, D], 0 where no key is visible
  at::Tensor lse;  // [H, Q], -inf where no key is visible
};

// q [Q, H, D] at positions from q_begin, k and v [S, K, D] at positions from k_begin.
inline DenseAttention dense_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      std::int64_t q_begin, std::int64_t k_begin) {
  const std::int64_t share = q.size(1) / k.size(1);
  const auto heads_first = [](const at::Tensor& rows) { return rows.transpose(0, 1); };
  const at::Tensor keys = heads_first(k.repeat_interleave(share, 1));    // [H, S, D]
  const at::Tensor values = heads_first(v.repeat_interleave(share, 1));  // [H, S, D]
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(2)));
  const at::Tensor q_positions = at::arange(q_begin, q_begin + q.size(0)).unsqueeze(1);
  const at::Tensor k_positions = at::arange(k_begin, k_begin + k.size(0)).unsqueeze(0);
  const at::Tensor hidden = k_positions > q_positions;  // [Q, S]
  const at::Tensor scores =
      (at::matmul(heads_first(q), keys.transpose(1, 2)) * scale)
          .masked_fill(hidden, -std::numeric_limits<double>::infinity());  // [H, Q, S]
  const at::Tensor lse = at::logsumexp(scores, -1);
  const at::Tensor weights = at::softmax(scores, -1).masked_fill(hidden, 0);
  return {heads_first(at::matmul(weights, values)).contiguous(), lse};
}

// Forward and backward of one whole sequence.
struct DenseGradients {
  at::Tensor out;            // [Q, H, D]
  at::Tensor lse;            // [H, Q]
  at::Tensor d_q, d_k, d_v;  // like q, k, v
};

inline DenseGradients dense_attention_gradients(const at::Tensor& q, const at::Tensor& k,
                                                const at::Tensor& v, const at::Tensor& d_out) {
  const auto leaf = [](const at::Tensor& tensor) {
    return tensor.to(at::kDouble).clone().requires_grad_(true);
  };
  const at::Tensor q_leaf = leaf(q), k_leaf = leaf(k), v_leaf = leaf(v);
  const DenseAttention dense = dense_attention(q_leaf, k_leaf, v_leaf, 0, 0);
  (dense.out * d_out.to(at::kDouble)).sum().backward();
  return {dense.out.detach(), dense.lse.detach(), q_leaf.grad(), k_leaf.grad(), v_leaf.grad()};
}

// ||got - expected||_2 / max(||expected||_2, floor): infinite when shapes differ, NaN when a NaN is
// in either.
inline double relative_error(const at::Tensor& got, const at::Tensor& expected,
                             double floor = 1e-3) {
  if (got.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  const at::Tensor truth = expected.to(at::kDouble);
  const double difference = (got.to(at::kDouble) - truth).norm().item<double>();
  return difference / std::max(truth.norm().item<double>(), floor);
}

// The largest error of out, d_q, d_k and d_v. The first token's d_q and share of d_k are
// differences that cancel to 0, so their rounding is measured against d_v, which is of the size of
// what cancels.
inline double largest_error(const at::Tensor& out, const at::Tensor& d_q, const at::Tensor& d_k,
                            const at::Tensor& d_v, const DenseGradients& dense) {
  const double floor = dense.d_v.norm().item<double>();
  double largest = 0;
  for (const double error :
       {relative_error(out, dense.out), relative_error(d_q, dense.d_q, floor),
        relative_error(d_k, dense.d_k, floor), relative_error(d_v, dense.d_v)}) {
    if (!(error <= largest)) largest = error;  // a NaN too
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

}  // namespace weft
