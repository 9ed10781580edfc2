// StripAssembly: schedules of disjoint ranks -> micro-batches, groups and slots of a plan.
//
// A group and a pack have a slot each; groups ascend in order of start on every rank, so no cycle
// of slots can arise.
#pragma once

#include "plan/step_plan.h"
#include "plan/strip_schedule.h"

namespace weft {

class StripAssembly {
 public:
  explicit StripAssembly(StepPlan& plan);
  void append(const StripInput& input, const StripSchedule& schedule);

 private:
  MicroBatch& open(std::int32_t rank);
  void reserve(const StripInput& input, const StripSchedule& schedule);
  void add_pack(const StripInput& input, const StripSchedule& schedule, const StripPack& pack);
  void add_group(const StripGroup& placed);

  StepPlan& plan_;
};

}  // namespace weft
