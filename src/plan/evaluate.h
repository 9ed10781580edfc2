// evaluate(plan): the predicted time of a plan (design section 3 "Time"). It alone gives the
// makespan, whatever strategy made the plan.
//
// A slot starts when all its ranks are free and lasts as long as its slowest micro-batch; its ranks
// are free again when it ends. A ring whose ranks share a node pays the cost's node hops, any other
// the hops between nodes. Where ranks are pipelines (plan.pipeline_stages > 1), every stage
// runs the slot's two passes instead, and slots overlap (plan/pipeline_time.h). Deterministic; time
// O(micro-batches + pieces + groups), with pipelines times p and a logarithm. A micro-batch that
// offloads activations is charged for the copies that its layers do not hide.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

struct SlotTime {
  Nanoseconds start;  // of the forward pass in the first stage
  Nanoseconds end;    // of the backward pass in the first stage
  friend bool operator==(const SlotTime&, const SlotTime&) = default;
};

struct RankTime {
  // Sum of its micro-batches' own times, exposed exchange included; the mean of a pipeline's
  // stages.
  Nanoseconds busy;
  Nanoseconds finish;  // end of its last slot; 0 without one
  Tokens tokens;
  std::int64_t work = 0;  // causal (query, key) pairs
  std::int64_t num_micro_batches = 0;
  friend bool operator==(const RankTime&, const RankTime&) = default;
};

struct Evaluation {
  Nanoseconds makespan;
  std::vector<RankTime> ranks;  // [num_ranks]
  std::vector<SlotTime> slots;  // [num_slots]
  Tokens exchange_tokens;  // tokens of K and V sent, summed over hops and ranks: one layer forward
  Tokens cross_node_tokens;  // those of exchange_tokens whose sender and receiver are on two nodes
  std::int64_t sharded_sequences = 0;
  std::int64_t offloaded_micro_batches = 0;
  double max_offload_ratio = 0;
  Nanoseconds exposed_copies;   // time of offload that compute cannot hide, summed over ranks
  std::int32_t max_degree = 0;  // 1 when nothing is shared, 0 for an empty plan
  double idle_share = 0;        // 1 - busy time / (num_ranks * makespan)
  double imbalance = 1;         // largest / mean busy time over ranks
};

// REQUIRES: validate(plan) passes. UserError when the cluster has another number of ranks or of
// pipeline stages than the plan, and for a plan of pipelines that offloads.
Evaluation evaluate(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster);

}  // namespace weft
