// The memory that a slice of a plan asks of its rank: cost/memory_model.h applied to the rank's
// micro-batches, one at a time as it runs them.
#pragma once

#include <vector>

#include "cost/memory_model.h"
#include "plan/plan_slice.h"

namespace weft {

// In the slice's order. Which tokens of a piece have targets is not in the plan: a piece of a
// shared sequence counts as many as it can have.
std::vector<MicroBatchSize> micro_batch_sizes(const PlanSlice& slice);

// The largest over the slice's micro-batches; the states alone when it has none.
MemoryParts predict_peak(const MemoryShape& shape, const PlanSlice& slice);

}  // namespace weft
