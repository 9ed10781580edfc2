// Why one sequence of a plan got its degree and its ranks: what `weft plan --explain` says.
//
// Everything is judged from the plan, the cost and the cluster, so any valid plan can be explained,
// also a saved or hand-made one; a strategy records no reasons. Times of the sequence alone are at
// speed 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/step_plan.h"

namespace weft {

// One member's micro-batch if the sequence were alone on `degree` ranks: all layers, forward and
// backward. The ranks are those that it has, or, for other degrees, at their best place.
struct AloneTime {
  std::int32_t degree = 1;
  Nanoseconds attention;
  Nanoseconds linear;
  Nanoseconds fixed;
  Nanoseconds exchange;  // its hops, hidden or not
  Nanoseconds exposed;   // the part that attention cannot hide
  Nanoseconds total;     // attention + linear + fixed + exposed
};

// A micro-batch that holds a part of the sequence.
struct ExplainedPart {
  Rank rank;
  std::int32_t node = 0;
  std::int64_t micro_batch_idx = 0;    // of the rank
  std::int64_t num_micro_batches = 0;  // of the rank
  Tokens tokens;                       // of this sequence
  Tokens other_tokens;                 // of other sequences, in the same micro-batch
  // End of the rank's slot before, 0 without one; in a pipeline, where slots overlap, at most the
  // start of this one.
  Nanoseconds free_at;
};

struct SequenceExplanation {
  SequenceSpec sequence;
  std::int64_t sequence_idx = 0;     // place in canonical order: 0 is the longest
  std::int32_t least_degree = 1;     // fewest ranks that hold it without offload
  std::int32_t degree = 1;           // ranks that it has
  std::vector<AloneTime> alone;      // at degrees around `degree`, ascending
  std::vector<ExplainedPart> parts;  // [degree] in ring order
  std::int32_t num_nodes = 1;
  std::int32_t least_nodes = 1;  // on which as many ranks can lie
  std::int32_t slot_idx = 0;
  double offload_ratio = 0;  // the largest of its parts' micro-batches
  SlotTime slot;
  double makespan_share = 0;   // (slot.end - slot.start) / makespan
  double rank_time_share = 0;  // that time on all its ranks / busy time of all ranks
  LowerBound bound;            // of the step
  LowerBound bound_without;    // of the step without this sequence
  std::string why_degree;
  std::string why_ranks;
  std::string why_bound;
};

// REQUIRES: validate(plan) passes; `evaluation` is evaluate(plan, cost, cluster). UserError when
// the plan has no sequence with this id.
SequenceExplanation explain_sequence(const StepPlan& plan, const Evaluation& evaluation,
                                     const CostModel& cost, const ClusterSpec& cluster,
                                     std::int64_t id);

// "work", "longest", ...: the bound that is largest.
std::string_view deciding_bound(const LowerBound& bound);

}  // namespace weft
