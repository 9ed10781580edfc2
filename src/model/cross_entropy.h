// CrossEntropyHead: output head and loss together, over chunks of target rows, so that logits are
// never [T, V].
//
// Rows without a target are selected away before the head, not multiplied by 0: whatever they hold,
// they cannot reach the loss. loss = sum(w_t * (lse(logits_t) - logits_t[target])); log-sum-exp in
// the model's dtype, sum in double. Every w_t / W is known beforehand (design section 3 "Loss"), so
// the gradient is taken while a chunk's logits are there: nothing is kept, nothing computed twice.
// Letters: T rows, R rows with a target, E hidden_size, V vocabulary.
#pragma once

#include <string_view>
#include <utility>

#include "base/operation_trace.h"
#include "loader/packed_micro_batch.h"
#include "tensor/tensor.h"

namespace weft {

struct HeadResult {
  double loss = 0;      // this micro-batch's share of the step loss
  at::Tensor d_hidden;  // [T, E]
};

class CrossEntropyHead {
 public:
  // weight [V, E], gradient [V, E]; at most `chunk_rows` target rows have logits at a time.
  // `trace` may be null.
  CrossEntropyHead(at::Tensor weight, at::Tensor gradient, std::int64_t chunk_rows,
                   OperationTrace* trace = nullptr)
      : weight_(std::move(weight)),
        gradient_(std::move(gradient)),
        chunk_rows_(chunk_rows),
        trace_(trace) {}

  at::Tensor logits(const at::Tensor& hidden) const;  // hidden [T, E] -> [T, V]
  // hidden [T, E] is the input of the head.
  double loss(const at::Tensor& hidden, const PackedMicroBatch& batch) const;
  // Loss, d_hidden, and the head's weight gradient, which it adds.
  HeadResult forward_backward(const at::Tensor& hidden, const PackedMicroBatch& batch);

 private:
  OperationScope product(std::int64_t num_rows, std::string_view pass) const;
  OperationScope softmax_scope() const;

  at::Tensor weight_;
  at::Tensor gradient_;
  std::int64_t chunk_rows_;
  OperationTrace* trace_;
};

}  // namespace weft
