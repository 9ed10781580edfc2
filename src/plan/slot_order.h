// The order in which slots run: every rank runs its micro-batches in its own order, and together
// these orders must agree (design section 3 "No deadlock"). An order over all ranks exists if and
// only if the graph with an edge from each micro-batch's slot to the slot of the rank's next one
// has no cycle.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

// `rank` runs `slot_idx` before the slot that follows in the list.
struct SlotEdge {
  std::int32_t slot_idx = 0;
  Rank rank;
  friend bool operator==(const SlotEdge&, const SlotEdge&) = default;
};

struct SlotOrder {
  std::vector<std::int32_t>
      slots;  // every slot once, each after all that must run before it; partial on a cycle
  std::vector<SlotEdge>
      cycle;  // empty when there is none; the last edge leads back to the first slot
};

// Ascending numbers where every rank has them so, else Kahn's algorithm; O(micro-batches + slots);
// the same plan gives the same order.
// REQUIRES: every micro-batch's slot_idx is in [0, plan.num_slots).
SlotOrder order_slots(const StepPlan& plan);

// "slot 0 -(rank 1)-> slot 3 -(rank 0)-> slot 0"; long cycles are shortened.
std::string describe_cycle(const std::vector<SlotEdge>& cycle);

}  // namespace weft
