#include "plan/uneven_placement.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "plan/rank_orders.h"

namespace weft {
namespace {

constexpr std::size_t kNumStarts = 8;     // start times tried for a sequence
constexpr std::size_t kNumWindows = 128;  // places in an order of ranks tried for each
constexpr std::array<double, 3> kStretches{1.0, 1.12, 1.3};  // held tokens over the sequence's
constexpr std::size_t kFewMembers = 64;
constexpr std::array<double, 7> kSpeedValues{-0.8, -0.2, 0.2, 0.45, 0.7, 0.95, 1.3};
constexpr std::int64_t kNumLevels = 9;
constexpr std::array<double, 2> kNodeSpeedValues{0.2, 0.95};  // of the ranks of one node

}  // namespace

UnevenPlacement::UnevenPlacement(const CostModel& cost, std::vector<Member> ranks,
                                 std::vector<double> prices, const UnevenGoal& goal,
                                 std::int32_t ranks_per_node)
    : cost_(&cost),
      ranks_(std::move(ranks)),
      ranks_per_node_(ranks_per_node),
      costs_(cost, uniform_cluster(static_cast<std::int32_t>(ranks_.size()), ranks_per_node)),
      goal_(goal),
      all_layers_(cost.num_layers * (1 + cost.backward_ratio)),
      price_(std::move(prices)),
      times_(ranks_.size()) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    all_price_ += price_[r];
    premium_.push_back(goal_.premium_weight * (price_[r] - ranks_[r].speed));
    waiting_price_.push_back(price_[r] + premium_[r] / goal_.gap_weight);
  }
  std::int64_t most = 0;
  std::int64_t least = RankTimes::kNever;
  for (const Member& rank : ranks_) {
    most = std::max(most, rank.capacity);
    least = std::min(least, rank.capacity);
  }
  if (least == most) {
    speed_orders_.push_back(speed_order(ranks_, true));
    speed_orders_.push_back(speed_order(ranks_, false));
  }
  const auto num_ranks = static_cast<std::uint32_t>(ranks_.size());
  const std::int64_t num_levels = least == most ? 1 : kNumLevels;
  for (std::int64_t l = 0; l < num_levels; ++l) {
    for (const double speed_value : kSpeedValues)
      add_price_order(most - (most - least) * l / num_levels, speed_value, 0, num_ranks);
  }
  if (!costs_.has_places()) return;
  const auto width = static_cast<std::uint32_t>(ranks_per_node);
  for (std::uint32_t first = 0; first < num_ranks; first += width) {
    for (const double speed_value : kNodeSpeedValues)
      add_price_order(most, speed_value, first, std::min(first + width, num_ranks));
  }
}

void UnevenPlacement::add_price_order(std::int64_t level, double speed_value, std::uint32_t begin,
                                      std::uint32_t end) {
  price_orders_.push_back({.ranks = price_order(ranks_, price_,
                                                {.level = level,
                                                 .speed_value = speed_value,
                                                 .member_weight = goal_.member_weight,
                                                 .begin = begin,
                                                 .end = end}),
                           .level = level});
}

double UnevenPlacement::place(std::int32_t sequence_idx, Tokens tokens) {
  best_cost_ = std::numeric_limits<double>::infinity();
  best_ranks_.clear();
  tokens_ = tokens;
  work_ns_ = cost_->attention_ns_per_pair * static_cast<double>(causal_work({0, tokens_.value()}));
  const std::int64_t shortest = least_time();
  const std::vector<std::int64_t> starts = times_.starts(ranks_, tokens_, shortest);
  // The first ones, and as many spread over all that still end by the goal.
  const auto num_early = static_cast<std::size_t>(
      std::partition_point(starts.begin(), starts.end(),
                           [&](std::int64_t start) { return start + shortest <= goal_.time_ns; }) -
      starts.begin());
  const std::size_t step = std::max<std::size_t>(1, num_early / kNumStarts);
  const std::size_t end = std::min(starts.size(), std::max(num_early, kNumStarts));
  for (std::size_t at = 0; at < end; at += at < kNumStarts ? 1 : step)
    try_start(starts[at], shortest);
  if (best_ranks_.empty()) try_start(starts.back(), shortest);  // behind everything
  commit(sequence_idx);
  return best_cost_ - hurry_price_ * best_time_;
}

double UnevenPlacement::lateness() const {
  std::int64_t last = goal_.time_ns;
  for (const RankEnd& end : ends()) last = std::max(last, end.end);
  return static_cast<double>(last - goal_.time_ns) * all_price_;
}

void UnevenPlacement::try_start(std::int64_t start, std::int64_t shortest) {
  times_.find_free(start, shortest, free_now_);
  for (const PriceOrder& order : price_orders_) try_cheapest(start, order);
  for (const auto& order : speed_orders_) try_windows(start, order);
}

// About what the sequence takes on the fewest ranks.
std::int64_t UnevenPlacement::least_time() const {
  double held = 0;
  double speed = 0;
  for (const Member& rank : ranks_) {
    held += static_cast<double>(rank.capacity);
    speed += rank.speed;
  }
  const auto tokens = static_cast<double>(tokens_.value());
  const double share = tokens / held;
  const double compute = (work_ns_ + cost_->linear_ns_per_token * tokens) / (share * speed);
  return static_cast<std::int64_t>(0.8 * all_layers_ * compute);
}

void UnevenPlacement::add(const Candidate& free, std::int64_t level, Sums& sums) const {
  const std::uint32_t rank = free.rank;
  sums.held += std::min(level, ranks_[rank].capacity);
  sums.speed += ranks_[rank].speed;
  sums.price += price_[rank];
  if (free.until != RankTimes::kNever) {
    sums.used_price += price_[rank] * (1 - goal_.gap_weight) - premium_[rank];
    ++sums.num_limited;
  } else {
    sums.used_price += price_[rank];
    sums.waiting_price += waiting_price_[rank];
    sums.priced_since += waiting_price_[rank] * static_cast<double>(free.since);
  }
}

// The free ranks of an order, until they hold `enough` at a level.
void UnevenPlacement::collect(const std::vector<std::uint32_t>& order, std::int64_t level,
                              std::int64_t enough) {
  candidates_.clear();
  sums_.assign(1, {});
  for (const std::uint32_t rank : order) {
    const Candidate& free = free_now_[rank];
    if (free.until == 0) continue;
    candidates_.push_back(free);
    Sums next = sums_.back();
    add(free, level, next);
    sums_.push_back(next);
    if (next.held >= enough && candidates_.size() >= 2) break;
  }
}

void UnevenPlacement::try_cheapest(std::int64_t start, const PriceOrder& order) {
  // Most orders lead to no better group: these are only summed up.
  const Sums none;
  Sums sums;
  std::size_t count = 0;
  double slowest = std::numeric_limits<double>::infinity();
  for (const std::uint32_t rank : order.ranks) {
    if (free_now_[rank].until == 0) continue;
    add(free_now_[rank], order.level, sums);
    slowest = std::min(slowest, ranks_[rank].speed);
    if (++count >= 2 && sums.held >= tokens_.value()) break;
  }
  if (sums.held < tokens_.value() || count < 2) return;
  if (static_cast<std::int64_t>(count) > tokens_.value()) return;
  const auto held = static_cast<double>(sums.held);
  Group group{
      .first = &none,
      .last = &sums,
      .begin = 0,
      .end = count,
      .largest = static_cast<double>(order.level) * static_cast<double>(tokens_.value()) / held,
      .slowest = count > kFewMembers ? sums.speed / static_cast<double>(count) : slowest,
      .is_in_node = true};
  // Rounding aside.
  if (cost_of(start, group, time_of(group), waiting_of(start, group)) * (1 - 1e-9) >= best_cost_)
    return;
  collect(order.ranks, order.level, tokens_.value());
  group.is_in_node = is_in_node(0, count);
  try_group(start, group);
}

// Neighbours in an order of ranks that all hold the same.
void UnevenPlacement::try_windows(std::int64_t start, const std::vector<std::uint32_t>& order) {
  collect(order, RankTimes::kNever, RankTimes::kNever);
  const auto most = static_cast<double>(ranks_.front().capacity);
  const auto tokens = static_cast<double>(tokens_.value());
  const std::size_t step = std::max<std::size_t>(1, candidates_.size() / kNumWindows);
  for (std::size_t begin = 0; begin < candidates_.size(); begin += step) {
    if (sums_.back().held - sums_[begin].held < tokens_.value()) break;
    for (const double stretch : kStretches) {
      const auto wanted = sums_[begin].held + static_cast<std::int64_t>(stretch * tokens);
      if (wanted > sums_.back().held) break;
      const auto end = static_cast<std::size_t>(
          std::partition_point(sums_.begin(), sums_.end(),
                               [&](const Sums& sums) { return sums.held < wanted; }) -
          sums_.begin());
      if (static_cast<std::int64_t>(end - begin) > tokens_.value() || end - begin < 2) continue;
      Group group{
          .first = &sums_[begin],
          .last = &sums_[end],
          .begin = begin,
          .end = end,
          .largest = most * tokens / static_cast<double>(sums_[end].held - sums_[begin].held),
          .slowest = slowest_of(begin, end),
          .is_in_node = is_in_node(begin, end)};
      try_group(start, group);
    }
  }
}

// In a small group the slowest member's own tokens can take longest, in a large one they are cut to
// its speed.
double UnevenPlacement::slowest_of(std::size_t begin, std::size_t end) const {
  if (end - begin > kFewMembers)
    return (sums_[end].speed - sums_[begin].speed) / static_cast<double>(end - begin);
  double slowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = begin; i < end; ++i)
    slowest = std::min(slowest, ranks_[candidates_[i].rank].speed);
  return slowest;
}

bool UnevenPlacement::share_node(std::uint32_t rank, std::uint32_t other) const {
  const auto width = static_cast<std::uint32_t>(ranks_per_node_);
  return rank / width == other / width;
}

bool UnevenPlacement::is_in_node(std::size_t begin, std::size_t end) const {
  if (end - begin > static_cast<std::size_t>(costs_.node_ranks())) return false;
  for (std::size_t i = begin + 1; i < end; ++i)
    if (!share_node(candidates_[begin].rank, candidates_[i].rank)) return false;
  return true;
}

// About the slot's time, all layers.
double UnevenPlacement::time_of(const Group& group) const {
  const auto degree = static_cast<double>(group.end - group.begin);
  const double speed = group.last->speed - group.first->speed;
  const auto tokens = static_cast<double>(tokens_.value());
  const HopCost hop = cost_->hop(group.is_in_node);
  const double exchange = (degree - 1) * (hop.fixed_ns + hop.ns_per_token * group.largest);
  const double linear = cost_->linear_ns_per_token * tokens + cost_->fixed_ns * degree;
  return all_layers_ *
         std::max({(linear + work_ns_) / speed, (linear + work_ns_ / degree) / speed + exchange,
                   linear / degree / group.slowest + exchange});
}

// Of ranks that are free from now on; those in gaps do not wait.
double UnevenPlacement::cost_of(std::int64_t start, const Group& group, double time,
                                double waiting) const {
  const double price = group.last->price - group.first->price;
  const double late =
      std::max(0.0, static_cast<double>(start) + time - static_cast<double>(goal_.time_ns)) * price;
  return (group.last->used_price - group.first->used_price) * time + goal_.gap_weight * waiting +
         late * goal_.late_weight + hurry_price_ * time;
}

double UnevenPlacement::waiting_of(std::int64_t start, const Group& group) const {
  return (group.last->waiting_price - group.first->waiting_price) * static_cast<double>(start) -
         (group.last->priced_since - group.first->priced_since);
}

void UnevenPlacement::try_group(std::int64_t start, const Group& group) {
  const double time = time_of(group);
  const bool is_limited = group.last->num_limited != group.first->num_limited;
  double waiting = 0;
  if (!is_limited) {
    waiting = waiting_of(start, group);
  } else {
    for (std::size_t i = group.begin; i < group.end; ++i) {
      const Candidate& one = candidates_[i];
      if (one.until == RankTimes::kNever)
        waiting += waiting_price_[one.rank] * static_cast<double>(start - one.since);
    }
  }
  const double cost = cost_of(start, group, time, waiting);
  if (cost >= best_cost_) return;
  if (is_limited) {
    std::int64_t until = RankTimes::kNever;
    for (std::size_t i = group.begin; i < group.end; ++i)
      until = std::min(until, candidates_[i].until);
    if (static_cast<double>(until - start) < time) return;
    trial_ranks_.clear();
    for (std::size_t i = group.begin; i < group.end; ++i)
      trial_ranks_.push_back(candidates_[i].rank);
    if (until - start < cut_over(trial_ranks_).time) return;  // the time foreseen is not exact
  }
  best_cost_ = cost;
  best_time_ = time;
  best_start_ = start;
  best_ranks_.clear();
  for (std::size_t i = group.begin; i < group.end; ++i) best_ranks_.push_back(candidates_[i].rank);
}

UnevenCut UnevenPlacement::cut_over(std::vector<std::uint32_t>& ranks) const {
  std::sort(ranks.begin(), ranks.end());
  std::vector<Member> members;
  for (const std::uint32_t rank : ranks) members.push_back(ranks_[rank]);
  const bool is_inside = share_node(ranks.front(), ranks.back());
  return cut_unevenly(is_inside ? costs_.inside() : costs_.between(), tokens_, members);
}

void UnevenPlacement::commit(std::int32_t sequence_idx) {
  UnevenCut cut = cut_over(best_ranks_);
  const std::int64_t start = times_.first_common(best_ranks_, best_start_, cut.time);
  StripGroup group{
      .sequence_idx = sequence_idx, .start = start, .ranks = {}, .cut = std::move(cut.ranges)};
  for (const std::uint32_t rank : best_ranks_) {
    times_.take(rank, start, start + cut.time);
    const auto own = static_cast<std::int32_t>(rank);
    group.ranks.push_back({own, own + 1});
  }
  groups_.push_back(std::move(group));
  durations_.push_back(cut.time);
}

std::vector<StripGroup> UnevenPlacement::take_groups() {
  std::vector<std::uint32_t> order(groups_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return groups_[a].start < groups_[b].start;
  });
  std::vector<StripGroup> sorted;
  std::vector<std::int64_t> ends(ranks_.size());
  for (const std::uint32_t idx : order) {
    const auto place = static_cast<std::int32_t>(sorted.size());
    for (const RankInterval& interval : groups_[idx].ranks) {
      std::int64_t& end = ends[static_cast<std::size_t>(interval.begin)];
      if (end < groups_[idx].start)
        gaps_.push_back({groups_[idx].start - end, interval.begin, place});
      end = groups_[idx].start + durations_[idx];
    }
    sorted.push_back(std::move(groups_[idx]));
  }
  return sorted;
}

std::vector<RankEnd> UnevenPlacement::ends() const {
  std::vector<RankEnd> ends;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ends.push_back({times_.end_of(r), static_cast<std::int32_t>(r)});
  return ends;
}

}  // namespace weft
