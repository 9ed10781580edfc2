// The time of one sequence alone in a micro-batch, at a given degree: what planners choose degrees
// by.
//
// Planning numbers: they take the mean work of a member and the largest token count, so they can
// differ from evaluate() by the unevenness of the zigzag cut (at most two tokens a member).
#pragma once

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/group_costs.h"
#include "plan/step_plan.h"

namespace weft {

// ranks_needed() as a degree. REQUIRES: the sequence fits on the ranks there are (make_plan
// checks).
std::int32_t smallest_degree(Tokens tokens, Tokens capacity);

// One member's micro-batch, nothing else in it, with the cost's hops between nodes.
// REQUIRES: degree >= 1.
Nanoseconds sequence_time(const CostModel& cost, Tokens tokens, std::int32_t degree, double speed);
// The same at the group's best place.
Nanoseconds sequence_time(const GroupCosts& costs, Tokens tokens, std::int32_t degree,
                          double speed);

// Smallest degree in [least, most] whose time is at most `limit`; when there is none, the fastest
// one.
std::int32_t degree_within(const CostModel& cost, Tokens tokens, std::int32_t least,
                           std::int32_t most, Nanoseconds limit);
std::int32_t degree_within(const GroupCosts& costs, Tokens tokens, std::int32_t least,
                           std::int32_t most, Nanoseconds limit);

}  // namespace weft
