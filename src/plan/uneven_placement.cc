#include "plan/uneven_placement.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
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
      free_(ranks_.size(), {FreeTime{}}) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    all_price_ += price_[r];
    premium_.push_back(goal_.premium_weight * (price_[r] - ranks_[r].speed));
    waiting_price_.push_back(price_[r] + premium_[r] / goal_.gap_weight);
  }
  std::int64_t most = 0;
  std::int64_t least = kNever;
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
  const std::vector<std::int64_t> starts = possible_starts(shortest);
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
  find_free(start, shortest);
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

// Times at which ranks that hold the sequence are free for `shortest` or longer, ascending.
std::vector<std::int64_t> UnevenPlacement::possible_starts(std::int64_t shortest) const {
  struct Change {
    std::int64_t time = 0;
    std::int64_t held = 0;
  };
  std::vector<Change> changes;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (const FreeTime& free : free_[r]) {
      if (free.end == kNever) {
        changes.push_back({free.begin, ranks_[r].capacity});
      } else if (free.end - free.begin >= shortest) {
        changes.push_back({free.begin, ranks_[r].capacity});
        changes.push_back({free.end - shortest + 1, -ranks_[r].capacity});
      }
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.held < b.held;
  });
  std::vector<std::int64_t> starts;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    held += changes[i].held;
    const bool is_last = i + 1 == changes.size() || changes[i + 1].time != changes[i].time;
    if (is_last && changes[i].held > 0 && held >= tokens_.value())
      starts.push_back(changes[i].time);
  }
  return starts;
}

void UnevenPlacement::find_free(std::int64_t start, std::int64_t shortest) {
  free_now_.assign(ranks_.size(), {.rank = 0, .since = 0, .until = 0});
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (const FreeTime& free : free_[r]) {
      if (free.begin > start) break;
      if (free.end - start < shortest) continue;
      free_now_[r] = {static_cast<std::uint32_t>(r), free.begin, free.end};
    }
  }
}

void UnevenPlacement::add(const Candidate& free, std::int64_t level, Sums& sums) const {
  const std::uint32_t rank = free.rank;
  sums.held += std::min(level, ranks_[rank].capacity);
  sums.speed += ranks_[rank].speed;
  sums.price += price_[rank];
  if (free.until != kNever) {
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
  collect(order, kNever, kNever);
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
      if (one.until == kNever)
        waiting += waiting_price_[one.rank] * static_cast<double>(start - one.since);
    }
  }
  const double cost = cost_of(start, group, time, waiting);
  if (cost >= best_cost_) return;
  if (is_limited) {
    std::int64_t until = kNever;
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
  // The first time from the chosen one on at which all are free for as long.
  std::int64_t start = best_start_;
  for (bool is_moved = true; is_moved;) {
    is_moved = false;
    for (const std::uint32_t rank : best_ranks_) {
      for (const FreeTime& free : free_[rank]) {
        if (free.end - cut.time < std::max(start, free.begin)) continue;
        if (free.begin > start) {
          start = free.begin;
          is_moved = true;
        }
        break;
      }
    }
  }
  StripGroup group{
      .sequence_idx = sequence_idx, .start = start, .ranks = {}, .cut = std::move(cut.ranges)};
  for (const std::uint32_t rank : best_ranks_) {
    take(rank, start, start + cut.time);
    const auto own = static_cast<std::int32_t>(rank);
    group.ranks.push_back({own, own + 1});
  }
  groups_.push_back(std::move(group));
  times_.push_back(cut.time);
}

void UnevenPlacement::take(std::uint32_t rank, std::int64_t begin, std::int64_t end) {
  std::vector<FreeTime>& free = free_[rank];
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (free[i].begin > begin || free[i].end < end) continue;
    const FreeTime before{free[i].begin, begin};
    free[i].begin = end;
    if (free[i].begin == free[i].end) {
      if (before.begin < before.end) {
        free[i] = before;
      } else {
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
      }
    } else if (before.begin < before.end) {
      free.insert(free.begin() + static_cast<std::ptrdiff_t>(i), before);
    }
    return;
  }
  throw_internal_error("plan: rank {} is not free from {} to {} ns", rank, begin, end);
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
      end = groups_[idx].start + times_[idx];
    }
    sorted.push_back(std::move(groups_[idx]));
  }
  return sorted;
}

std::vector<RankEnd> UnevenPlacement::ends() const {
  std::vector<RankEnd> ends;
  for (std::size_t r = 0; r < free_.size(); ++r)
    ends.push_back({free_[r].back().begin, static_cast<std::int32_t>(r)});
  return ends;
}

}  // namespace weft
