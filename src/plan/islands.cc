#include "plan/islands.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace weft {
namespace {

constexpr std::int32_t kIslandRanks = 2048;
constexpr std::int32_t kIslandDegrees = 8;  // an island is this many times wider than any group

std::vector<StripInput> cut_cluster(const PlanRequest& request, const StepPlan& plan,
                                    std::int32_t largest_degree) {
  const std::int32_t num_ranks = plan.num_ranks;
  const std::int32_t node = request.cluster.ranks_per_node;
  const std::int64_t width = std::max<std::int64_t>(
      {kIslandRanks, std::int64_t{kIslandDegrees} * largest_degree, 2 * std::int64_t{node}});
  const auto count = static_cast<std::int32_t>(std::max<std::int64_t>(1, num_ranks / width));
  std::vector<StripInput> islands(static_cast<std::size_t>(count));
  std::int32_t first = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    auto end = static_cast<std::int32_t>(std::int64_t{num_ranks} * (i + 1) / count);
    if (i + 1 < count) end = end / node * node;
    StripInput& island = islands[static_cast<std::size_t>(i)];
    island.sequences = plan.sequences;
    island.first_rank = first;
    island.num_ranks = end - first;
    island.ranks_per_node = node;
    first = end;
  }
  return islands;
}

// Gives each item to the island with the least time per rank.
class Dealer {
 public:
  explicit Dealer(std::span<const StripInput> islands) : islands_(islands) {
    for (std::size_t i = 0; i < islands.size(); ++i) least_.emplace(0, i);
  }
  std::size_t next(double area) {
    const auto [load, island] = least_.top();
    least_.pop();
    least_.emplace(load + area / islands_[island].num_ranks, island);
    return island;
  }

 private:
  using Load = std::pair<double, std::size_t>;
  std::span<const StripInput> islands_;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least_;
};

}  // namespace

std::vector<StripInput> deal_to_islands(const PlanRequest& request, const StepPlan& plan,
                                        std::vector<GangTask> tasks, std::size_t first_whole) {
  std::int32_t largest_degree = 1;
  for (const GangTask& task : tasks) largest_degree = std::max(largest_degree, task.degree);
  std::vector<StripInput> islands = cut_cluster(request, plan, largest_degree);
  if (islands.size() == 1) {
    islands[0].tasks = std::move(tasks);
    islands[0].whole.resize(plan.sequences.size() - first_whole);
    std::iota(islands[0].whole.begin(), islands[0].whole.end(),
              static_cast<std::int32_t>(first_whole));
    return islands;
  }
  for (StripInput& island : islands)
    island.whole.reserve((plan.sequences.size() - first_whole) / islands.size() * 9 / 8);
  Dealer dealer(islands);
  for (const GangTask& task : tasks) {
    const double area = static_cast<double>(task.degree) * static_cast<double>(task.duration);
    islands[dealer.next(area)].tasks.push_back(task);
  }
  const CostModel& cost = request.cost;
  const double all_layers = cost.num_layers * (1 + cost.backward_ratio);
  const double linear =
      cost.linear_ns_per_token + cost.fixed_ns / static_cast<double>(plan.capacity.value());
  // Several neighbours at once while many are left, the last ones one by one.
  const std::size_t num = plan.sequences.size();
  for (std::size_t i = first_whole; i < num;) {
    const std::size_t left = num - i;
    const std::size_t block = std::clamp<std::size_t>(left / (64 * islands.size()), 1, 32);
    double ns = 0;
    for (std::size_t k = i; k < i + block; ++k) {
      const auto tokens = static_cast<double>(plan.sequences[k].tokens.value());
      ns += tokens * (linear + cost.attention_ns_per_pair * (tokens + 1) / 2);
    }
    std::vector<std::int32_t>& whole = islands[dealer.next(all_layers * ns)].whole;
    const std::size_t before = whole.size();
    whole.resize(before + block);
    std::iota(whole.begin() + static_cast<std::ptrdiff_t>(before), whole.end(),
              static_cast<std::int32_t>(i));
    i += block;
  }
  return islands;
}

}  // namespace weft
