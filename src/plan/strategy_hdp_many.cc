// Strategy "hdp" for ranks that are all alike and steps of many sequences: every sequence above the
// capacity on the fewest ranks that hold it, everything else whole.
#include <algorithm>
#include <limits>
#include <vector>

#include "plan/islands.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"
#include "plan/strip_assembly.h"

namespace weft {
namespace {

// The search for an order stops when the makespan is this near to the bound.
constexpr double kNearEnough = 1.002;

std::vector<GangTask> tasks_of(const PlanRequest& request, const StepPlan& plan) {
  std::vector<GangTask> tasks;
  const double speed = request.cluster.speed_of(Rank(0));
  for (std::size_t i = 0; i < plan.sequences.size() && plan.sequences[i].tokens > plan.capacity;
       ++i) {
    const Tokens tokens = plan.sequences[i].tokens;
    const std::int32_t degree = smallest_degree(tokens, plan.capacity);
    tasks.push_back({.sequence_idx = static_cast<std::int32_t>(i),
                     .degree = degree,
                     .duration = sequence_time(request.cost, tokens, degree, speed).value()});
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const GangTask& a, const GangTask& b) {
    return a.duration > b.duration;
  });
  return tasks;
}

}  // namespace

void plan_hdp_many(const PlanRequest& request, StepPlan& plan) {
  std::vector<GangTask> tasks = tasks_of(request, plan);
  const std::size_t first_whole = tasks.size();
  const auto goal =
      static_cast<std::int64_t>(static_cast<double>(plan.lower_bound.value()) * kNearEnough);
  StripAssembly assembly(plan);
  for (const StripInput& island : deal_to_islands(request, plan, std::move(tasks), first_whole))
    assembly.append(island, schedule_strip(island, request.cost, request.cluster, plan.capacity, goal));
}

}  // namespace weft
