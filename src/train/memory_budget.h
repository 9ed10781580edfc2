// A run's memory against its budget: the capacity that memory.budget_bytes allows, what would fit
// when the configuration does not, and the check of every plan before its step.
//
// plan.capacity 0 asks for the largest capacity that fits (4096 without a budget); a capacity that
// is given and does not fit is refused. Both go by the largest micro-batch that the capacity allows
// (cost/memory_model.h), so that no plan of this capacity without offload can exceed the budget.
#pragma once

#include <string>

#include "plan/slice_memory.h"
#include "train/config.h"

namespace weft {

inline constexpr Tokens kUnbudgetedCapacity{4096};

struct MemoryBudget {
  MemoryShape shape = {};
  Bytes bytes = Bytes(0);  // of one rank; 0: no limit
  bool exceeded_by(const MemoryParts& parts) const {
    return bytes > Bytes(0) && parts.total() > bytes;
  }
};

// REQUIRES: ranks and vocabulary of the configuration are settled.
MemoryBudget memory_budget(const TrainConfig& config, std::int32_t threads_per_rank);

// Largest micro-batch of a run: a step has no more tokens than data.global_batch_tokens.
MemoryParts predict_largest(const TrainConfig& config, const MemoryBudget& budget);

// plan.capacity, or what stands for its 0. UserError with what would fit when the budget does not
// hold it. `longest`: tokens of the corpus' longest sequence.
Tokens settle_capacity(const TrainConfig& config, const MemoryBudget& budget, Tokens longest);

// "plan.capacity up to 512 (the longest sequence then needs 4 ranks), ...": the capacities that
// fit, by recompute mode, and the least budget when none does.
std::string what_would_fit(const TrainConfig& config, const MemoryBudget& budget, Tokens longest);

// The largest prediction of these slices' micro-batches. UserError when the budget does not hold
// one.
MemoryParts check_budget(const MemoryBudget& budget, const PlanSlice& slice);

}  // namespace weft
