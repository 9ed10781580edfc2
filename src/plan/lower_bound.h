// Proven lower bounds on the makespan of any plan of the plan space without offload: each sequence
// has one group, once; members may hold any disjoint ranges. docs/planner.md has the proofs.
//
// - work: total compute, one fixed cost for each capacity's worth of tokens, and the
//   exchange that no degree can hide, over the total speed
// - longest: the longest sequence at the degree that is best for it
// - in_turn: the longest sequences of which no two fit on the cluster at the same time, one
//   after the other
// - spread: the least T for which the work still fits when every sequence takes at least the
//   degree with which it alone can end within T
#pragma once

#include <algorithm>
#include <span>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

struct LowerBound {
  Nanoseconds work;
  Nanoseconds longest;
  Nanoseconds in_turn;
  Nanoseconds spread;
  Nanoseconds best() const { return std::max({work, longest, in_turn, spread}); }
};

// REQUIRES: canonical order; every sequence fits num_ranks * capacity. O((sequences + ranks) *
// log).
LowerBound lower_bound(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity);

}  // namespace weft
