// A lower bound for ranks of unequal speed or memory, in which the time of each rank has a price:
// its speed, or a share of its speed and what its memory is worth where that is more
// (docs/planner.md "priced").
#pragma once

#include <span>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

// Per layer forward. REQUIRES: canonical order; every sequence fits on all ranks together.
double priced_bound_ns(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity);

// The least of (sum of memories) x members x (most that one holds) over all groups that hold
// `tokens`. `memories`: descending, at least `tokens` together.
double least_group_volume(std::span<const double> memories, double tokens);

}  // namespace weft
