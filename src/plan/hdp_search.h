// Chooses the degrees and the order of groups for strategy "hdp": the schedule with the least
// makespan it can find.
//
// Three steps (docs/planner.md): the smallest degrees; degrees at which every sequence alone ends
// within T, for T from the lower bound upwards; local changes of the best so far. Work is bounded
// by counts, never by a clock, so that the same input gives the same plan on every machine.
#pragma once

#include "plan/gang_schedule.h"
#include "plan/planner.h"

namespace weft {

// REQUIRES: plan.sequences in canonical order, not empty, each within num_ranks * capacity.
GangSchedule search_gang_schedule(const PlanRequest& request, const StepPlan& plan);

}  // namespace weft
