// StripAssembly: schedules of disjoint ranks -> micro-batches, groups and slots of a plan.
//
// A group and a pack have a slot each. Slots are numbered in the order of groups, packs just before
// the group that they precede: the numbers ascend on every rank, so no cycle of slots can arise.
// Micro-batches are made rank by rank, as everything that reads a plan goes through them.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/step_plan.h"
#include "plan/strip_schedule.h"

namespace weft {

class StripAssembly {
 public:
  explicit StripAssembly(StepPlan& plan);
  void append(const StripInput& input, const StripSchedule& schedule);

 private:
  // A rank's part in a group of the schedule.
  struct Member {
    std::uint32_t group = 0;     // into StripSchedule::groups
    std::uint32_t position = 0;  // in ring order
  };

  void number_slots(const StripInput& input, const StripSchedule& schedule);
  void add_groups(const StripInput& input, const StripSchedule& schedule);
  void add_pack(const StripInput& input, const StripSchedule& schedule, std::uint32_t pack_idx);
  void add_member(const StripSchedule& schedule, std::int32_t rank, Member member);

  StepPlan& plan_;
  // Of the schedule that is being appended; the memory serves one after the other:
  std::vector<std::uint32_t> bucket_first_;  // [groups + 2]: packs by the group they precede
  std::vector<std::uint32_t> unordered_;     // [packs]
  std::vector<std::uint32_t> by_bucket_;     // [packs]
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> pack_order_;    // by rank, then by the group they precede
  std::vector<std::uint32_t> pack_first_;    // [ranks + 1] into pack_order_
  std::vector<std::int32_t> pack_slot_;      // [packs]
  std::vector<Member> members_;              // by rank, then by group
  std::vector<std::uint32_t> member_first_;  // [ranks + 1] into members_
  std::vector<ZigzagCut> cuts_;              // [groups]
  std::int32_t first_group_ = 0;             // of the schedule, in the plan
};

}  // namespace weft
