// PlanBuilder: appends slots to the ranks' lists, one after another.
//
// Every slot is appended at the end of each of its ranks' lists, so the order in which slots are
// opened is one order that all ranks agree with: a cycle of slots cannot be built (design section 3
// "No deadlock").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

class PlanBuilder {
 public:
  // `plan` already has sequences and num_ranks; groups, slots and micro-batches are appended to it.
  explicit PlanBuilder(StepPlan& plan);

  // Later add_* calls go into this slot until the next open_slot. A slot must get at least one
  // sequence.
  void open_slot();
  void add_whole(std::int32_t sequence_idx, Rank rank);
  // Zigzag cut over `ranks` in ring order; a single rank means the whole sequence.
  // REQUIRES: ranks.size() <= tokens of the sequence.
  void add_shared(std::int32_t sequence_idx, std::span<const Rank> ranks);

 private:
  MicroBatch& micro_batch_of(Rank rank);

  StepPlan& plan_;
};

}  // namespace weft
