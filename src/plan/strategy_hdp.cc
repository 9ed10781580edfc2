#include <algorithm>
#include <numeric>

#include "plan/hdp_search.h"
#include "plan/plan_builder.h"
#include "plan/strategy.h"

namespace weft {

void plan_hdp(const PlanRequest& request, StepPlan& plan) {
  PlanBuilder builder(plan);
  if (plan.sequences.empty()) return;
  const GangSchedule schedule = search_gang_schedule(request, plan);

  std::vector<std::size_t> packs(schedule.packs.size());
  std::iota(packs.begin(), packs.end(), 0);
  std::stable_sort(packs.begin(), packs.end(), [&](std::size_t a, std::size_t b) {
    return schedule.packs[a].before_group < schedule.packs[b].before_group;
  });
  auto next = packs.begin();
  const auto append_packs_before = [&](std::int32_t group_idx) {
    for (; next != packs.end() && schedule.packs[*next].before_group <= group_idx; ++next) {
      builder.open_slot();
      for (const std::int32_t sequence_idx : schedule.packs[*next].sequences) {
        builder.add_whole(sequence_idx, schedule.packs[*next].rank);
      }
    }
  };
  for (std::size_t g = 0; g < schedule.groups.size(); ++g) {
    append_packs_before(static_cast<std::int32_t>(g));
    builder.open_slot();
    builder.add_shared(schedule.groups[g].sequence_idx, schedule.groups[g].ranks);
  }
  append_packs_before(kAfterAllGroups);
}

}  // namespace weft
