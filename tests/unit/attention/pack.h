// Random inputs for attention over whole sequences of one rank.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/attention.h"
#include "tests/unit/attention/dense_oracle.h"

namespace weft {

inline AttentionLayout pack_of(const std::vector<std::int64_t>& lengths) {
  AttentionLayout layout;
  for (const std::int64_t tokens : lengths) {
    layout.whole.push_back({layout.num_rows, {0, tokens}});
    layout.num_rows += tokens;
  }
  return layout;
}

struct Pack {
  AttentionLayout layout;
  AttentionShape shape;
  at::Tensor q, k, v, d_out;  // [T, H, D], [T, K, D], [T, K, D], [T, H, D]

  Pack(std::uint64_t seed, const std::vector<std::int64_t>& lengths, const HeadCounts& heads,
       at::ScalarType dtype)
      : layout(pack_of(lengths)),
        shape(heads.shape()),
        q(random_tensor(seed, {layout.num_rows, heads.num_heads, heads.head_dim}, dtype)),
        k(random_tensor(seed + 1, {layout.num_rows, heads.num_kv_heads, heads.head_dim}, dtype)),
        v(random_tensor(seed + 2, k.sizes(), dtype)),
        d_out(random_tensor(seed + 3, q.sizes(), dtype)) {}

  AttentionResult forward(const AttentionKernel& kernel) const {
    return attention_forward(kernel, layout, shape, q, k, v, {});
  }
  Qkv backward(const AttentionKernel& kernel, const AttentionResult& result) const {
    return attention_backward(kernel, layout, shape, q, k, v, result, d_out, {});
  }
};

}  // namespace weft
