// StripAssembly: schedules of disjoint ranks -> micro-batches, groups and slots of a plan.
//
// A group and a pack have a slot each. Slots are numbered in the order of groups, packs just before
// the group that they precede: the numbers ascend on every rank, so no cycle of slots can arise.
// Micro-batches are made rank by rank, as everything that reads a plan goes through them.
#pragma once

#include <span>

#include "plan/step_plan.h"
#include "plan/strip_schedule.h"

namespace weft {

class StripAssembly {
 public:
  explicit StripAssembly(StepPlan& plan);
  void append(const StripInput& input, const StripSchedule& schedule);
  // One after the other in the plan, whatever the threads.
  void append(std::span<const StripInput> inputs, std::span<const StripSchedule> schedules,
              int num_threads);

 private:
  StepPlan& plan_;
};

}  // namespace weft
