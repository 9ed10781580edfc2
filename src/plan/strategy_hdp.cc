#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/evaluate.h"
#include "plan/hdp_search.h"
#include "plan/plan_builder.h"
#include "plan/strategy.h"

namespace weft {

namespace {

// With few sequences, sharing a whole pack (static) or packing longs and shorts in turn (naive) is
// sometimes better than groups that each have a slot; both are plans of this plan space, so they
// are candidates.
constexpr std::size_t kFewSequences = 1000;

void append_schedule(const GangSchedule& schedule, StepPlan& plan) {
  PlanBuilder builder(plan);
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

}  // namespace

void plan_hdp(const PlanRequest& request, StepPlan& plan) {
  const StepPlan header = plan;
  plan.ranks.resize(static_cast<std::size_t>(plan.num_ranks));
  if (plan.sequences.empty()) return;
  append_schedule(search_gang_schedule(request, plan), plan);
  if (plan.sequences.size() > kFewSequences) return;

  Nanoseconds makespan = evaluate(plan, request.cost, request.cluster).makespan;
  const auto consider = [&](auto strategy, Tokens max_context) {
    PlanRequest other_request = request;
    other_request.options.max_context = max_context;
    StepPlan other = header;
    strategy(other_request, other);
    const Nanoseconds other_makespan = evaluate(other, request.cost, request.cluster).makespan;
    if (other_makespan >= makespan) return;
    makespan = other_makespan;
    plan = std::move(other);
  };
  consider(plan_hdp_naive, Tokens(0));
  consider(plan_static, plan.sequences.front().tokens);
  consider(plan_static, request.options.capacity * plan.num_ranks);
}

}  // namespace weft
