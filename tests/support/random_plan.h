// Random valid plans: wilder than any planner's, so that executors and checks meet what a plan may
// legally be.
//
// Any degree, several groups and whole sequences in one micro-batch, slots that link many groups
// through shared ranks, idle ranks, permuted rings, micro-batch orders that agree only through the
// slot graph, and (on request) unequal cuts down to single tokens, out of order, with touching
// pieces. The same options give the same plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

struct RandomPlanOptions {
  std::int32_t num_ranks = 4;
  std::vector<SequenceSpec> sequences;  // in any order; ids distinct
  Tokens capacity{1 << 20};             // tokens of one micro-batch without offload
  LossWeighting weighting = LossWeighting::kToken;
  std::uint64_t seed = 0;
  bool allow_unequal_cuts = true;  // else every group is cut by zigzag_ranges
  bool allow_offload = false;      // else every offload ratio is 0
  std::int32_t num_layers = 4;     // layers per rank; enters the plan, and the effect of offload
};

// Passes validate(). makespan and lower_bound are 0: nothing predicts such a plan.
// Throws UserError when a sequence does not fit on all ranks together.
StepPlan random_plan(const RandomPlanOptions& options);

// `count` sequences with ids 0, 1, ... in no order, lengths from 1 to max_tokens (edges and every
// magnitude), with all, none, one or some of their tokens as targets.
std::vector<SequenceSpec> random_sequences(std::uint64_t seed, std::int32_t count,
                                           std::int64_t max_tokens);

}  // namespace weft
