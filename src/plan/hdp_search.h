// Chooses the degrees and the order of groups for strategy "hdp": the schedule with the least
// makespan it can find.
//
// Four steps (docs/planner.md): the smallest degrees; degrees at which every sequence alone ends
// within T, for T from the lower bound upwards; local changes of the best so far; then less
// exchange at a makespan that counts as equal. Work is bounded by counts, never by a clock, so that
// the same input gives the same plan on every machine.
#pragma once

#include "plan/gang_schedule.h"
#include "plan/planner.h"

namespace weft {

// The longest makespan that counts as equal to `best`: within 0.4 %. Rates measured on one machine
// repeat to a few percent at best, so a cost model cannot know which of two such plans is faster,
// while every token exchanged is surely sent.
Nanoseconds equal_makespan(Nanoseconds best);

// A schedule with little exchange and a makespan equal to the best one found; `rival` is the
// makespan of the best plan that the caller has already, Nanoseconds max when there is none.
// REQUIRES: plan.sequences in canonical order, not empty, each within num_ranks * capacity.
GangSchedule search_gang_schedule(const PlanRequest& request, const StepPlan& plan,
                                  Nanoseconds rival);

}  // namespace weft
