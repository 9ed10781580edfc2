// Proven lower bounds on the makespan of any plan of the plan space without offload: each sequence
// has one group, once; members may hold any disjoint ranges. docs/planner.md has the proofs.
//
// - work: total compute, one fixed cost for each capacity's worth of tokens, and the
//   exchange that no degree can hide, over the total speed
// - longest: the longest sequence at the degree that is best for it
// - in_turn: sequences whose tokens do not fit the cluster k times over, so that some rank runs k +
// 1
//   of them one after the other
// - crowded: the few longest sequences, run side by side only where their tokens fit the cluster
// - spread: the least T for which the work still fits when every sequence takes at least the
//   degree with which it alone can end within T
// - memory: where ranks hold unequal amounts, work and held tokens weighed together
// - priced: where ranks are unequal, every rank's time at the price of its speed or its memory
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
  Nanoseconds crowded;  // 0 where it is not above the others
  Nanoseconds spread;
  Nanoseconds memory;
  Nanoseconds priced;
  Nanoseconds best() const {
    return std::max({work, longest, in_turn, crowded, spread, memory, priced});
  }
};

// REQUIRES: canonical order; every sequence fits on all ranks together. O(sequences + ranks), apart
// from `spread` where the longest sequences need more ranks than hold them.
// With cluster.pipeline_stages > 1: of pipelines, however their passes are ordered.
LowerBound lower_bound(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity);

}  // namespace weft
