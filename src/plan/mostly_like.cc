#include <utility>

#include "plan/group_costs.h"
#include "plan/like_ranks.h"
#include "plan/strategy.h"

namespace weft {

bool plan_mostly_like(
    const PlanRequest& request, StepPlan& plan,
    const std::function<void(const PlanRequest&, std::int32_t num_like, StepPlan&)>& fill) {
  const GroupCosts costs(request.cost, request.cluster);
  std::optional<LikeRanks> like =
      find_like_ranks(request.cluster, plan.capacity, costs.has_places());
  if (!like ||
      (!plan.sequences.empty() && plan.sequences.front().tokens > like->capacity * like->num_like))
    return false;
  PlanRequest own = request;
  own.cluster = std::move(like->cluster);
  own.options.capacity = like->capacity;
  const Tokens capacity = std::exchange(plan.capacity, like->capacity);
  fill(own, like->num_like, plan);
  plan.capacity = capacity;
  rename_ranks(like->order, plan.num_ranks, plan);
  return true;
}

}  // namespace weft
