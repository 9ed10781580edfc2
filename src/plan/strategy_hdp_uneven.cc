// Strategy "hdp" for ranks of unequal speed or memory.
//
// Longest first, every sequence that few ranks hold takes a group of ranks (uneven_placement.h),
// whose members share the work by their speeds (uneven_group.h). Whole sequences then fill gaps and
// level the ends, each rank by its own speed and memory. Several prices of the ranks' time are
// tried.
#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "plan/strategy.h"
#include "plan/strip_assembly.h"
#include "plan/uneven_placement.h"
#include "plan/whole_filler.h"

namespace weft {
namespace {

// Sequences are whole that at least this share of the ranks hold; longer ones would crowd on the
// ranks of most memory, which groups want.
constexpr double kWholeShare = 0.4;
// Where all ranks hold the same, a price is nearly the speed, and ranks are chosen by windows too.
constexpr UnevenGoal kLikeMemories{
    .late_weight = 4, .gap_weight = 0.2, .premium_weight = 0, .member_weight = 0};
constexpr UnevenGoal kUnlikeMemories{
    .late_weight = 4, .gap_weight = 0.05, .premium_weight = 1, .member_weight = 1};

// Sequences that take more than one part in so many of all memory, the longest of them.
constexpr std::int64_t kGiantShare = 16;
constexpr std::size_t kMostGiants = 24;
constexpr std::uint64_t kGiantOrders = 10;
constexpr std::array<double, 3> kHastes{0.1, 0.3, 1};

// The time of a rank costs max(v, speed_share * v + memory_price * C_r / C).
struct Trial {
  double speed_share = 1;
  double memory_price = 0;
  double goal = 1;  // makespan aimed at, over the bound
};
constexpr std::array<Trial, 2> kSpeedTrials{{{1, 0, 1}, {0.9, 0.1, 1.01}}};
constexpr std::array<Trial, 3> kMemoryTrials{
    {{0.7, 0.4, 1.01}, {0.85, 0.15, 1.02}, {0.75, 0.3, 1.01}}};

constexpr std::int32_t kManyRanks = 1024;

// Places the longest sequences in several orders and keeps the cheapest: few of them fit side by
// side, and which ones do decides how much of the ranks is left idle. Where they must follow each
// other, shorter and dearer groups may be cheaper for all. Returns how many it placed.
std::size_t place_giants(std::span<const SequenceSpec> sequences, std::int64_t all_memory,
                         UnevenPlacement& placement) {
  std::vector<std::size_t> order;
  while (order.size() < std::min(kMostGiants, sequences.size()) &&
         sequences[order.size()].tokens.value() > all_memory / kGiantShare)
    order.push_back(order.size());
  const auto place_all = [&](UnevenPlacement& empty) {
    double cost = 0;
    for (const std::size_t i : order)
      cost += empty.place(static_cast<std::int32_t>(i), sequences[i].tokens);
    return cost + empty.lateness();
  };
  UnevenPlacement empty = placement;
  double least = place_all(placement);
  if (order.size() < 2) return order.size();
  double haste = 0;
  for (const double more : kHastes) {
    UnevenPlacement trial = empty;
    trial.set_haste(more);
    const double cost = place_all(trial);
    if (cost >= least) continue;
    least = cost;
    haste = more;
    placement = std::move(trial);
  }
  empty.set_haste(haste);
  const RandomStream random(0, "orders of giants");
  for (std::uint64_t move = 0; move < kGiantOrders; ++move) {
    // One of them earlier than it was.
    const std::vector<std::size_t> before = order;
    const auto from = static_cast<std::ptrdiff_t>(1 + random.below(2 * move, order.size() - 1));
    const auto to =
        static_cast<std::ptrdiff_t>(random.below(2 * move + 1, static_cast<std::uint64_t>(from)));
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
    UnevenPlacement trial = empty;
    const double cost = place_all(trial);
    if (cost < least) {
      least = cost;
      placement = std::move(trial);
    } else {
      order = before;
    }
  }
  placement.set_haste(0);
  return order.size();
}

StripSchedule schedule_uneven(const PlanRequest& request, const StepPlan& plan,
                              const StripInput& input, const std::vector<Member>& ranks,
                              const Trial& trial, UnevenGoal goal) {
  goal.time_ns =
      static_cast<std::int64_t>(static_cast<double>(plan.lower_bound.value()) * trial.goal);
  std::vector<double> prices;
  for (const Member& rank : ranks) {
    const double memory =
        static_cast<double>(rank.capacity) / static_cast<double>(plan.capacity.value());
    prices.push_back(
        std::max(rank.speed, trial.speed_share * rank.speed + trial.memory_price * memory));
  }
  UnevenPlacement placement(request.cost, ranks, std::move(prices), goal,
                            request.cluster.ranks_per_node);
  std::int64_t all_memory = 0;
  for (const Member& rank : ranks) all_memory += rank.capacity;
  // Those before the whole ones.
  const std::size_t num_shared = input.whole.empty()
                                     ? plan.sequences.size()
                                     : static_cast<std::size_t>(input.whole.front().first);
  const std::size_t num_giants =
      goal.member_weight > 0
          ? place_giants(std::span(plan.sequences).first(num_shared), all_memory, placement)
          : 0;
  for (std::size_t i = num_giants; i < num_shared; ++i)
    placement.place(static_cast<std::int32_t>(i), plan.sequences[i].tokens);
  StripSchedule schedule;
  schedule.groups = placement.take_groups();
  WholeFiller filler(input, request.cost, request.cluster, plan.capacity, schedule);
  std::vector<RankGap> gaps = placement.gaps();
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const RankGap& a, const RankGap& b) { return a.length > b.length; });
  for (const RankGap& gap : gaps) filler.fill_gap(gap);
  filler.level(placement.ends());
  return schedule;
}

}  // namespace

void plan_hdp_uneven(const PlanRequest& request, StepPlan& plan) {
  std::vector<Member> ranks;
  std::vector<std::int64_t> capacities;
  for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
    ranks.push_back({.speed = request.cluster.speed_of(Rank(r)),
                     .capacity = request.cluster.capacity_of(Rank(r), plan.capacity).value()});
    capacities.push_back(ranks.back().capacity);
  }
  std::sort(capacities.begin(), capacities.end(), std::greater<>());
  const bool is_even = capacities.front() == capacities.back();
  const Tokens most_whole(capacities[static_cast<std::size_t>(
      kWholeShare * static_cast<double>(capacities.size() - 1))]);
  std::size_t num_shared = 0;
  while (num_shared < plan.sequences.size() && plan.sequences[num_shared].tokens > most_whole)
    ++num_shared;
  StripInput input;
  input.sequences = plan.sequences;
  input.num_ranks = plan.num_ranks;
  input.whole = whole_runs(plan.sequences, num_shared);
  input.is_uneven = true;
  StripSchedule best;
  // The time of a trial grows with the square of the ranks.
  const std::span<const Trial> trials =
      is_even ? std::span<const Trial>(kSpeedTrials)
              : std::span(kMemoryTrials).first(plan.num_ranks > kManyRanks ? 2 : 3);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    StripSchedule schedule = schedule_uneven(request, plan, input, ranks, trials[t],
                                             is_even ? kLikeMemories : kUnlikeMemories);
    if (t == 0 || schedule.makespan < best.makespan) best = std::move(schedule);
  }
  StripAssembly(plan).append(input, best);
}

}  // namespace weft
