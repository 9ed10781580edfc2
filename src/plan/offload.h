// What offload does to the ranks that a sequence needs (ByteScale section 5.2, Eq. 3;
// docs/planner.md "Offload").
//
// A micro-batch keeps two layers' activations and the share 1 - r of the others on the rank, so at
// ratio r a rank holds more tokens. A ratio is free while copying one layer takes no longer than
// computing one. Ratios are multiples of 2^-12: exact, and the same on every machine.
#pragma once

#include <cstdint>

#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

// Tokens of a micro-batch that a rank holds with all offloaded that can be.
Tokens most_offloaded(Tokens capacity, std::int32_t num_layers);

// The least ratio with which a rank holds a micro-batch of so many tokens; above 1 when none does.
double least_offload_ratio(Tokens tokens, Tokens capacity, std::int32_t num_layers);

// The largest ratio whose copies hide behind the compute of a part of this sequence, forward and
// backward; fixed costs and exchange are left out, so it is on the safe side.
double hidden_offload_ratio(const CostModel& cost, Tokens tokens);

// Fewest ranks that hold the sequence at a free ratio and with the host memory there is; at most
// ranks_needed(tokens, capacity). REQUIRES: the cost has the terms of offload.
std::int32_t least_degree_with_offload(const CostModel& cost, Tokens tokens, Tokens capacity);

// Gives every micro-batch above its rank's capacity the least ratio that it needs.
void set_offload_ratios(StepPlan& plan);

}  // namespace weft
