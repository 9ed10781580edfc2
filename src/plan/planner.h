// make_plan: lengths + cluster + cost -> StepPlan, by one of several strategies behind one
// signature.
//
// The input is a set: make_plan sorts it canonically first, so the same sequences in any order give
// the same bytes. A plan that it returns has been validated, and carries the makespan that
// evaluate() predicts and a proven lower bound.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

struct PlanOptions {
  std::string strategy = "hdp";  // one of strategy_names()
  Tokens capacity;               // C: tokens that a rank may hold in one micro-batch, >= 1
  // Longest sequence that the run is configured for; "static" sizes its mesh by it. 0: the longest
  // sequence given.
  Tokens max_context;
  // Whether long sequences may offload activations, to need fewer ranks ("hdp" alone;
  // docs/planner.md "Offload").
  bool offload = false;
  // Threads that plan, >= 1 ("hdp" alone uses several); the plan is the same for any number.
  int num_threads = 1;
  LossWeighting weighting = LossWeighting::kToken;
  std::int64_t step = 0;   // recorded in the plan
  std::uint64_t seed = 0;  // recorded in the plan
};

struct PlanRequest {
  std::vector<SequenceSpec> sequences;
  ClusterSpec cluster;
  CostModel cost;
  PlanOptions options;
};

// UserError, before anything is planned, for: an unknown strategy, a capacity below 1, duplicate
// ids, a sequence without tokens, and a sequence longer than all ranks' capacity together (with the
// smallest number of ranks that would fit). No sequence is ever dropped, cut or forced over the
// capacity. An empty set gives an empty plan.
StepPlan make_plan(const PlanRequest& request);

std::span<const std::string> strategy_names();  // "static", ..., "hdp"

}  // namespace weft
