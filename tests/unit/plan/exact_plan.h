// The least makespan of a step of few sequences on few like ranks, found by going through every
// order of items (sets of sequences that run together on a set of ranks), with dominated states
// left out. Written apart from the planner, which it judges.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft::testing {

// `known`: the makespan of some plan; nothing worse is looked at. A ring whose ranks are all in one
// stretch of `ranks_per_node` has the cost's node hops (0: no ring has). REQUIRES: at most 4 ranks
// and 7 sequences.
Nanoseconds exact_makespan(std::vector<SequenceSpec> sequences, const CostModel& cost,
                           std::int32_t num_ranks, Tokens capacity, Nanoseconds known,
                           std::int32_t ranks_per_node = 0);

}  // namespace weft::testing
