#include "plan/islands.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft {
namespace {

constexpr std::int32_t kIslandRanks = 2048;
constexpr std::int32_t kIslandDegrees = 8;  // an island is this many times wider than any group

std::vector<StripInput> cut_cluster(const PlanRequest& request, const StepPlan& plan,
                                    std::int32_t largest_degree, std::int32_t num_ranks) {
  const std::int32_t num_odd = plan.num_ranks - num_ranks;
  std::int32_t first_odd = num_ranks;
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
    if (num_odd == 0) continue;
    island.first_odd = first_odd;
    first_odd = num_ranks + static_cast<std::int32_t>(std::int64_t{num_odd} * (i + 1) / count);
    island.num_odd = first_odd - island.first_odd;
    for (std::int32_t rank = island.first_odd; rank < first_odd; ++rank)
      island.odd_width += request.cluster.speed_of(Rank(rank)) / request.cluster.speed_of(Rank(0));
  }
  return islands;
}

// Deals items by time per rank.
class Dealer {
 public:
  explicit Dealer(std::vector<StripInput>& islands) : islands_(islands), loads_(islands.size()) {
    for (const StripInput& island : islands) width_ += island.width();
  }

  // To the island with the least.
  void deal(const GangTask& task) {
    const auto least = std::min_element(loads_.begin(), loads_.end());
    const auto i = static_cast<std::size_t>(least - loads_.begin());
    const double area = static_cast<double>(task.degree) * static_cast<double>(task.duration);
    *least += area / islands_[i].width();
    islands_[i].tasks.push_back(task);
  }

  // To each its share, the last ones to the islands with the least. `ns`: of each sequence.
  void deal(WholeRun run, double ns) {
    std::int32_t left = run.count;
    shares_.clear();
    for (const StripInput& island : islands_) {
      const auto share = static_cast<std::int32_t>(run.count * island.width() / width_);
      shares_.push_back(std::min(share, left));  // widths need not be whole
      left -= shares_.back();
    }
    order_.resize(islands_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::partial_sort(order_.begin(), order_.begin() + left, order_.end(),
                      [&](std::size_t a, std::size_t b) {
                        return loads_[a] != loads_[b] ? loads_[a] < loads_[b] : a < b;
                      });
    for (std::int32_t i = 0; i < left; ++i) ++shares_[order_[static_cast<std::size_t>(i)]];
    for (std::size_t i = 0; i < islands_.size(); ++i) {
      if (shares_[i] == 0) continue;
      islands_[i].whole.push_back({.first = run.first, .count = shares_[i]});
      run.first += shares_[i];
      loads_[i] += ns * shares_[i] / islands_[i].width();
    }
  }

 private:
  std::vector<StripInput>& islands_;
  std::vector<double> loads_;  // [islands]: ns a rank
  double width_ = 0;
  std::vector<std::int32_t> shares_;  // [islands] of the run
  std::vector<std::size_t> order_;    // [islands]
};

}  // namespace

std::vector<StripInput> deal_to_islands(const PlanRequest& request, const StepPlan& plan,
                                        std::vector<GangTask> tasks, std::size_t first_whole,
                                        std::int32_t num_like) {
  std::int32_t largest_degree = 1;
  for (const GangTask& task : tasks) largest_degree = std::max(largest_degree, task.degree);
  std::vector<StripInput> islands = cut_cluster(request, plan, largest_degree, num_like);
  if (islands.size() == 1) {
    islands[0].tasks = std::move(tasks);
    islands[0].whole = whole_runs(plan.sequences, first_whole);
    return islands;
  }
  Dealer dealer(islands);
  for (const GangTask& task : tasks) dealer.deal(task);
  const CostModel& cost = request.cost;
  const double all_layers = cost.num_layers * (1 + cost.backward_ratio);
  const double linear =
      cost.linear_ns_per_token + cost.fixed_ns / static_cast<double>(plan.capacity.value());
  for (const WholeRun run : whole_runs(plan.sequences, first_whole)) {
    const auto tokens =
        static_cast<double>(plan.sequences[static_cast<std::size_t>(run.first)].tokens.value());
    dealer.deal(run,
                all_layers * tokens * (linear + cost.attention_ns_per_pair * (tokens + 1) / 2));
  }
  return islands;
}

}  // namespace weft
