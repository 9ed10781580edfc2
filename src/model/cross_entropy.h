// CrossEntropyHead: output head and loss together, over chunks of target rows, so that logits are
// never [T, V].
//
// Rows without a target are selected away before the head, not multiplied by 0: whatever they hold,
// they cannot reach the loss. loss = sum(w_t * (lse(logits_t) - logits_t[target])); log-sum-exp in
// the model's dtype, sum in double. Backward computes each chunk's logits again rather than keep
// them: 2 * V * E FLOPs per target instead of V numbers. Letters: T rows, R rows with a target, E
// hidden_size, V vocabulary.
#pragma once

#include <utility>

#include "loader/packed_micro_batch.h"
#include "tensor/tensor.h"

namespace weft {

// What forward leaves for backward.
struct SavedLoss {
  at::Tensor rows;     // [R] int64, rows with a target, ascending
  at::Tensor targets;  // [R] int64
  at::Tensor weights;  // [R] w_t / W, in the model's dtype
  at::Tensor lse;      // [R]
};

class CrossEntropyHead {
 public:
  // weight [V, E], gradient [V, E]; at most `chunk_rows` target rows have logits at a time.
  CrossEntropyHead(at::Tensor weight, at::Tensor gradient, std::int64_t chunk_rows)
      : weight_(std::move(weight)), gradient_(std::move(gradient)), chunk_rows_(chunk_rows) {}

  at::Tensor logits(const at::Tensor& hidden) const;  // hidden [T, E] -> [T, V]
  // hidden [T, E] is the input of the head. Returns this micro-batch's share of the step loss.
  double forward(const at::Tensor& hidden, const PackedMicroBatch& batch, SavedLoss& saved) const;
  // Adds the head's weight gradient and returns d_hidden [T, E].
  at::Tensor backward(const at::Tensor& hidden, const SavedLoss& saved);

 private:
  at::Tensor weight_;
  at::Tensor gradient_;
  std::int64_t chunk_rows_;
};

}  // namespace weft
