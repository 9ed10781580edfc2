// PackedMicroBatch: one micro-batch of one rank as tensors. Nothing is padded: T is the sum of its
// pieces. Letters: T tokens of the micro-batch.
#pragma once

#include "corpus/sequence_source.h"
#include "plan/plan_slice.h"
#include "tensor/tensor.h"

namespace weft {

struct PackedMicroBatch {
  at::Tensor tokens;          // [T] int64
  at::Tensor positions;       // [T] int64, inside the sequence: from 0
  at::Tensor targets;         // [T] int64, kNoTarget where there is none
  at::Tensor target_weights;  // [T] float64, w_t / W of the whole step; 0 where there is no target
  std::int64_t num_targets = 0;
};

// Rows are the micro-batch's pieces, concatenated in plan order.
PackedMicroBatch pack_micro_batch(const PlanSlice& slice, const MicroBatch& micro_batch,
                                  const SequenceSource& source);

}  // namespace weft
