// Causal attention over a packed micro-batch: whole sequences locally, shared ones over their
// group's ring (design section 3 "Attention over a group"; ByteScale section 5.1, 7), neighbouring
// groups of the same ranks over one.
//
// Queries stay; key/value pieces travel. Each hop gives a partial (out, lse); partials merge by
// log-sum-exp. Backward carries K, V and their gradient accumulators round the same ring. No [T, T]
// buffer exists anywhere. Letters: T rows of the micro-batch, H query heads, K key/value heads (H %
// K == 0), D head_dim. Accumulation dtype: that of the tensors (fp32 or fp64).
#pragma once

#include <cstdint>

#include "attention/attention_kernel.h"
#include "attention/attention_layout.h"
#include "base/operation_trace.h"
#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace weft {

struct AttentionShape {
  std::int64_t num_heads = 1;     // H
  std::int64_t num_kv_heads = 1;  // K, divides H
  std::int64_t head_dim = 1;      // D
  double softmax_scale() const;   // 1 / sqrt(D)
};

// Where a ring runs. comm may be null when the layout shares no sequence.
struct RingContext {
  Communicator* comm = nullptr;
  std::int64_t step = -1;
  std::int32_t layer = -1;
  OperationTrace* trace = nullptr;  // may be null
};

struct AttentionResult {
  at::Tensor out;  // [T, H, D]
  at::Tensor lse;  // [H, T], natural log-sum-exp of the scaled scores
};

// Queries, keys and values of a row side by side, as one product makes them; q, k and v are views
// of `packed`.
struct Qkv {
  at::Tensor packed;  // [T, (H + 2 K) D] contiguous
  at::Tensor q;       // [T, H, D]
  at::Tensor k;       // [T, K, D]
  at::Tensor v;       // [T, K, D]
};
Qkv split_qkv(const AttentionShape& shape, const at::Tensor& packed);

// q [T, H, D], k and v [T, K, D], rotated already; rows may lie apart, each row is contiguous.
AttentionResult attention_forward(const AttentionKernel& kernel, const AttentionLayout& layout,
                                  const AttentionShape& shape, const at::Tensor& q,
                                  const at::Tensor& k, const at::Tensor& v,
                                  const RingContext& ring);

// d_out [T, H, D] contiguous; `result` as attention_forward returned it. Returns the gradients of
// q, k and v.
Qkv attention_backward(const AttentionKernel& kernel, const AttentionLayout& layout,
                       const AttentionShape& shape, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const AttentionResult& result, const at::Tensor& d_out,
                       const RingContext& ring);

}  // namespace weft
