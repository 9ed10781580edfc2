// Strategy "hdp" for ranks that are all alike, or nearly all, and steps of many sequences: every
// sequence above the capacity on the fewest like ranks that hold it, everything else whole.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel_parts.h"
#include "plan/islands.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"
#include "plan/strip_assembly.h"

namespace weft {
namespace {

// The search for an order stops when the makespan is this near to the bound.
constexpr double kNearEnough = 1.002;
// More ranks than this many times the fewest never shorten a sequence by much: hops add up.
constexpr std::int32_t kMostWidening = 8;

GangTask task_of(const GroupCosts& costs, const StepPlan& plan, std::size_t i, std::int32_t degree,
                 double speed) {
  const Tokens tokens = plan.sequences[i].tokens;
  return {.sequence_idx = static_cast<std::int32_t>(i),
          .degree = degree,
          .duration = sequence_time(costs, tokens, degree, speed).value(),
          .between = sequence_time(costs.between(), tokens, degree, speed).value()};
}

std::vector<GangTask> tasks_of(const PlanRequest& request, const GroupCosts& costs,
                               const StepPlan& plan) {
  std::vector<GangTask> tasks;
  const double speed = request.cluster.speed_of(Rank(0));
  for (std::size_t i = 0; i < plan.sequences.size() && plan.sequences[i].tokens > plan.capacity;
       ++i) {
    const std::int32_t degree = smallest_degree(plan.sequences[i].tokens, plan.capacity);
    tasks.push_back(task_of(costs, plan, i, degree, speed));
  }
  sort_longest_first(tasks);
  return tasks;
}

// The tasks with more ranks where one alone takes longer than the step need take; empty when none
// does.
std::vector<GangTask> shorter_tasks(const PlanRequest& request, const GroupCosts& costs,
                                    const StepPlan& plan, std::int32_t num_like,
                                    std::vector<GangTask> tasks) {
  const double speed = request.cluster.speed_of(Rank(0));
  const Nanoseconds limit(static_cast<std::int64_t>(static_cast<double>(plan.lower_bound.value()) *
                                                    kNearEnough * speed));
  bool is_changed = false;
  for (GangTask& task : tasks) {
    if (task.duration <= limit.value()) break;
    const auto i = static_cast<std::size_t>(task.sequence_idx);
    const Tokens tokens = plan.sequences[i].tokens;
    const auto most = static_cast<std::int32_t>(std::min<std::int64_t>(num_like, tokens.value()));
    const std::int32_t degree = degree_within(costs, tokens, task.degree,
                                              std::min(most, kMostWidening * task.degree), limit);
    if (degree == task.degree) continue;
    is_changed = true;
    task = task_of(costs, plan, i, degree, speed);
  }
  if (!is_changed) return {};
  sort_longest_first(tasks);
  return tasks;
}

std::int64_t goal_of(const StepPlan& plan) {
  return static_cast<std::int64_t>(static_cast<double>(plan.lower_bound.value()) * kNearEnough);
}

struct Candidate {
  std::vector<StripInput> islands;
  std::vector<StripSchedule> schedules;  // [islands]
  std::int64_t makespan = 0;
};

Candidate schedule_all(const PlanRequest& request, const StepPlan& plan, std::int32_t num_like,
                       const std::vector<GangTask>& tasks) {
  Candidate candidate;
  candidate.islands = deal_to_islands(request, plan, tasks, tasks.size(), num_like);
  candidate.schedules.resize(candidate.islands.size());
  for_each_part(request.options.num_threads, candidate.islands.size(), [&](std::size_t i) {
    schedule_strip(candidate.islands[i], request.cost, request.cluster, plan.capacity,
                   goal_of(plan), candidate.schedules[i]);
  });
  for (const StripSchedule& schedule : candidate.schedules)
    candidate.makespan = std::max(candidate.makespan, schedule.makespan);
  return candidate;
}

}  // namespace

void plan_hdp_many(const PlanRequest& request, StepPlan& plan) {
  plan_hdp_like(request, plan.num_ranks, plan);
}

void plan_hdp_like(const PlanRequest& request, std::int32_t num_like, StepPlan& plan) {
  const GroupCosts costs(request.cost, request.cluster);
  const std::vector<GangTask> tasks = tasks_of(request, costs, plan);
  const std::vector<GangTask> shorter = shorter_tasks(request, costs, plan, num_like, tasks);
  Candidate best = schedule_all(request, plan, num_like, shorter.empty() ? tasks : shorter);
  // Without more ranks the longest task alone ends no earlier than this.
  if (!shorter.empty() && best.makespan > tasks.front().duration) {
    Candidate other = schedule_all(request, plan, num_like, tasks);
    if (other.makespan <= best.makespan) best = std::move(other);
  }
  StripAssembly(plan).append(best.islands, best.schedules, request.options.num_threads);
}

}  // namespace weft
