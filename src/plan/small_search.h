// Branch and bound for steps of few sequences on few like ranks: every choice of the ranks of each
// sequence, and of which sequences run as one micro-batch (whole on one rank, or as one ring).
// Ranks of a node are alike, and so are nodes with as many ranks.
#pragma once

#include <optional>
#include <vector>

#include "plan/planner.h"

namespace weft {

// Sequences that run together on the same ranks, in one slot.
struct SmallItem {
  std::uint32_t ranks = 0;      // bit r: rank r
  std::uint32_t sequences = 0;  // bit i: sequence i
};

bool is_small_step(const PlanRequest& request, const StepPlan& plan);

// Items in running order with a makespan below `limit`; nullopt when the search, whose length is
// bounded by a count, finds none. REQUIRES: is_small_step.
std::optional<std::vector<SmallItem>> search_small(const PlanRequest& request, const StepPlan& plan,
                                                   Nanoseconds limit);

// Appends them to an empty plan.
void append_items(const std::vector<SmallItem>& items, StepPlan& plan);

}  // namespace weft
