// Islands: a cluster of like ranks, and perhaps a few odd ones, cut into parts that are scheduled
// one by one, each wide compared with the largest group and with its share of everything. Keeps
// groups compact in the cluster, and planning time linear in the number of ranks.
#pragma once

#include <vector>

#include "plan/planner.h"
#include "plan/strip_schedule.h"

namespace weft {

// Whole nodes each, where there are several. `tasks`: longest duration first; every sequence of
// plan.sequences from first_whole on is whole. The first `num_like` ranks are alike, those behind
// them get whole sequences alone. The inputs refer to plan.sequences.
std::vector<StripInput> deal_to_islands(const PlanRequest& request, const StepPlan& plan,
                                        std::vector<GangTask> tasks, std::size_t first_whole,
                                        std::int32_t num_like);

}  // namespace weft
