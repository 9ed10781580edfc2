// The strategies behind make_plan: each fills groups, slots and micro-batches of a plan.
//
// REQUIRES for all: plan.sequences in canonical order, plan.num_ranks, plan.capacity and
// plan.lower_bound set, no
// sequence longer than num_ranks * capacity; request.cluster and request.cost checked.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/planner.h"
#include "plan/step_plan.h"

namespace weft {

// What people run today: one data x context mesh for the whole run. The context degree d is the
// least divisor of N with d * C >= max_context; sequences are packed in id order (the order in
// which the data arrives) into bins of d * C tokens, bins are dealt to the N / d data groups in
// turn, and every sequence of a bin is shared by all d ranks as one ring. A sequence with fewer
// tokens than d cannot be cut over the ring; it is whole on the rank of the bin with the fewest
// tokens.
void plan_static(const PlanRequest& request, StepPlan& plan);

// ByteScale Algorithm 1 without offload: D = ceil(s / C) ranks for a sequence above C, best-fit
// packs for the rest, each item on the next ranks in turn, whatever they already have to do.
void plan_hdp_naive(const PlanRequest& request, StepPlan& plan);

// ByteScale Algorithm 2 without pipelines, its open points decided: items of Algorithm 1 (groups of
// ceil(s / C), best-fit packs), longest first in 16 buckets of like work; delta is 1 % of the mean
// time of a rank; an item goes to the ranks that are furthest behind and starts when the last of
// them is free; while no rank lags, as at the start, every rank is a target.
void plan_hdp_algorithm2(const PlanRequest& request, StepPlan& plan);

// Degrees that are powers of two (or all ranks), the same number of micro-batches on every rank, as
// public dynamic context parallelism has it: rounds in which the longest sequence left sets the
// limit (its s^2 / D and 5 %), others join longest first, and empty ranks double the group with the
// most work. A rank for which a round has nothing idles through it.
void plan_pow2(const PlanRequest& request, StepPlan& plan);

// The mesh of plan_static, but sequences sorted by length before they are cut into bins, so that
// data groups run bins of like lengths side by side.
void plan_sorted(const PlanRequest& request, StepPlan& plan);

// Balanced HDP: degrees, groups and packs chosen for the least makespan (docs/planner.md).
void plan_hdp(const PlanRequest& request, StepPlan& plan);

// The parts of plan_hdp. Many sequences on ranks that are all alike:
void plan_hdp_many(const PlanRequest& request, StepPlan& plan);
// The same where only the first `num_like` ranks are alike: those behind them get whole sequences
// alone. REQUIRES: the like ranks are of full memory and hold every sequence together.
void plan_hdp_like(const PlanRequest& request, std::int32_t num_like, StepPlan& plan);
// Ranks of which most are alike, as those and odd ones: `fill` is plan_hdp_like or as it. False
// where few are alike or they do not hold the longest sequence: the plan is untouched then.
bool plan_mostly_like(
    const PlanRequest& request, StepPlan& plan,
    const std::function<void(const PlanRequest&, std::int32_t num_like, StepPlan&)>& fill);
// With request.options.offload; ranks all alike:
void plan_hdp_offload(const PlanRequest& request, StepPlan& plan);
// Ranks that are pipelines: cluster.pipeline_stages > 1.
void plan_hdp_pipeline(const PlanRequest& request, StepPlan& plan);
// Ranks of unequal speed or memory:
void plan_hdp_uneven(const PlanRequest& request, StepPlan& plan);

}  // namespace weft
