// Strategy "hdp" for ranks of unequal speed or memory.
//
// Ranks are taken in order of memory, speeds mixed: a group of ranks of like memory sends the least
// for what it holds, and its members share the work by their speeds (uneven_group.h). Longest
// sequence first, each takes of all windows in that order, at several start times, the one that
// uses up the least: every rank has a price for its time, made of its speed and its memory. Whole
// sequences then fill gaps and level the ends, each rank by its own speed and memory. Several
// prices are tried.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "plan/strategy.h"
#include "plan/strip_assembly.h"
#include "plan/uneven_group.h"
#include "plan/whole_filler.h"

namespace weft {
namespace {

constexpr std::size_t kNumStarts = 8;    // start times tried for a sequence
constexpr std::size_t kNumWindows = 512;  // places in the order of ranks tried for each
constexpr std::array<double, 3> kStretches{1.0, 1.12, 1.3};  // held tokens over the sequence's
constexpr std::size_t kFewMembers = 64;
constexpr std::array<std::int64_t, 3> kMemorySteps{50, 16, 6};
constexpr double kLateWeight = 4;  // of rank time after the goal

struct Trial {
  double memory_price =
      1;  // of a rank's time: its speed, or this times its memory where that is more
  double gap_weight = 0.5;  // of a gap that whole sequences may fill
  double goal = 1;          // makespan aimed at, over the bound
};
constexpr std::array<Trial, 3> kTrials{{{0.75, 0.2, 1.0}, {0.87, 0.2, 1.0}, {1.2, 0.5, 1.2}}};

class UnevenPlacement {
 public:
  UnevenPlacement(const PlanRequest& request, const StepPlan& plan, const Trial& trial)
      : cost_(request.cost),
        plan_(plan),
        trial_(trial),
        goal_(static_cast<double>(plan.lower_bound.value()) * trial.goal),
        all_layers_(request.cost.num_layers * (1 + request.cost.backward_ratio)) {
    const ClusterSpec& cluster = request.cluster;
    const auto num_ranks = static_cast<std::size_t>(plan.num_ranks);
    const bool has_memories = !cluster.memory.empty();
    for (std::size_t r = 0; r < num_ranks; ++r) {
      const Rank rank(static_cast<std::int64_t>(r));
      members_.push_back({.speed = cluster.speed_of(rank),
                          .capacity = cluster.capacity_of(rank, plan.capacity).value()});
    }
    for (const Member& member : members_) {
      const double memory =
          static_cast<double>(member.capacity) / static_cast<double>(plan.capacity.value());
      prices_.push_back(std::max(member.speed, trial.memory_price * memory));
    }
    for (const std::int64_t num_steps : kMemorySteps) {
      add_order(num_steps, true);
      add_order(num_steps, false);
      if (!has_memories) break;
    }
    ends_.resize(num_ranks);
  }

  // Appends the group to `schedule` and its gaps to gaps().
  void place(std::int32_t sequence_idx, StripSchedule& schedule) {
    best_ = {};
    tokens_ = plan_.sequences[static_cast<std::size_t>(sequence_idx)].tokens;
    work_ns_ = cost_.attention_ns_per_pair * static_cast<double>(causal_work({0, tokens_.value()}));
    const std::vector<std::int64_t> starts = possible_starts();
    std::size_t step = 1;
    for (std::size_t tried = 0, at = 0; tried < kNumStarts && at < starts.size(); ++tried) {
      for (const auto& order : orders_) try_start(starts[at], order);
      at += step;
      if (tried >= kNumStarts / 2) step *= 2;
    }
    commit(sequence_idx, schedule);
  }

  const std::vector<RankGap>& gaps() const { return gaps_; }
  std::vector<RankEnd> ends() const {
    std::vector<RankEnd> ends;
    for (std::size_t r = 0; r < ends_.size(); ++r)
      ends.push_back({ends_[r], static_cast<std::int32_t>(r)});
    return ends;
  }

 private:
  struct RankOrder {
    std::vector<std::size_t> ranks;
    std::vector<std::int64_t> most;  // [num_ranks]: largest memory in the rank's step
  };
  struct Choice {
    double cost = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> ranks;
    std::int64_t start = 0;
  };
  // Sums over the first i free ranks.
  struct Sums {
    std::int64_t held = 0;
    double speed = 0;
    double price = 0;
    double priced_end = 0;
  };

  // By memory, most first, in so many steps of the capacity. Inside a step by speed, so that
  // neighbours are alike; or mixed, so that any stretch of ranks has the mean speed (sorted by
  // speed, then dealt in the order of reversed bits).
  void add_order(std::int64_t num_steps, bool is_mixed) {
    const std::int64_t step = std::max<std::int64_t>(1, plan_.capacity.value() / num_steps);
    const auto level = [&](std::size_t rank) { return (members_[rank].capacity - 1) / step; };
    std::vector<std::size_t> sorted(members_.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
      return level(a) != level(b) ? level(a) > level(b) : members_[a].speed > members_[b].speed;
    });
    RankOrder& order = orders_.emplace_back();
    order.most.resize(members_.size());
    for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
      while (end < sorted.size() && level(sorted[end]) == level(sorted[begin])) ++end;
      const std::size_t size = end - begin;
      std::int64_t most = 0;
      for (std::size_t i = begin; i < end; ++i) most = std::max(most, members_[sorted[i]].capacity);
      for (std::size_t i = begin; i < end; ++i) order.most[sorted[i]] = most;
      std::size_t bits = 0;
      while ((std::size_t{1} << bits) < size) ++bits;
      for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
        std::size_t place = 0;
        for (std::size_t bit = 0; bit < bits; ++bit) place |= (i >> bit & 1) << (bits - 1 - bit);
        if (!is_mixed) place = i;
        if (place < size) order.ranks.push_back(sorted[begin + place]);
      }
    }
  }

  // Ends of ranks from the first at which the free ranks hold the sequence, ascending.
  std::vector<std::int64_t> possible_starts() {
    by_end_.resize(ends_.size());
    std::iota(by_end_.begin(), by_end_.end(), 0);
    std::sort(by_end_.begin(), by_end_.end(),
              [&](std::size_t a, std::size_t b) { return ends_[a] < ends_[b]; });
    std::vector<std::int64_t> starts;
    std::int64_t held = 0;
    for (const std::size_t rank : by_end_) {
      held += members_[rank].capacity;
      if (held < tokens_.value()) continue;
      if (starts.empty() || starts.back() != ends_[rank]) starts.push_back(ends_[rank]);
    }
    return starts;
  }

  void try_start(std::int64_t start, const RankOrder& order) {
    free_.clear();
    sums_.assign(1, {});
    for (const std::size_t rank : order.ranks) {
      if (ends_[rank] > start) continue;
      free_.push_back(rank);
      Sums next = sums_.back();
      next.held += members_[rank].capacity;
      next.speed += members_[rank].speed;
      next.price += prices_[rank];
      next.priced_end += prices_[rank] * static_cast<double>(ends_[rank]);
      sums_.push_back(next);
    }
    const std::size_t step = std::max<std::size_t>(1, free_.size() / kNumWindows);
    for (std::size_t begin = 0; begin < free_.size(); begin += step) {
      if (sums_.back().held - sums_[begin].held < tokens_.value()) break;
      for (const double stretch : kStretches) {
        const auto wanted = sums_[begin].held + static_cast<std::int64_t>(
                                                    stretch * static_cast<double>(tokens_.value()));
        if (wanted > sums_.back().held) break;
        const auto end = static_cast<std::size_t>(
            std::partition_point(sums_.begin(), sums_.end(),
                                 [&](const Sums& sums) { return sums.held < wanted; }) -
            sums_.begin());
        if (static_cast<std::int64_t>(end - begin) > tokens_.value()) continue;
        if (end - begin >= 2) try_window(begin, end, start, order.most[free_[begin]]);
      }
    }
  }

  // About the slot's time in a window of the free ranks, of which none holds more than `most`; all
  // layers.
  double time_in(std::size_t begin, std::size_t end, std::int64_t most) const {
    const auto degree = static_cast<double>(end - begin);
    const double speed = sums_[end].speed - sums_[begin].speed;
    const auto tokens = static_cast<double>(tokens_.value());
    const auto held = static_cast<double>(sums_[end].held - sums_[begin].held);
    // In a small group the slowest member's own tokens can take longest.
    double slowest = speed / degree;
    if (end - begin <= kFewMembers) {
      most = 0;
      for (std::size_t i = begin; i < end; ++i) {
        slowest = std::min(slowest, members_[free_[i]].speed);
        most = std::max(most, members_[free_[i]].capacity);
      }
    }
    const double largest = static_cast<double>(most) * tokens / held;
    const double exchange = (degree - 1) * (cost_.hop_fixed_ns + cost_.hop_ns_per_token * largest);
    const double linear = cost_.linear_ns_per_token * tokens + cost_.fixed_ns * degree;
    return all_layers_ *
           std::max({(linear + work_ns_) / speed, (linear + work_ns_ / degree) / speed + exchange,
                     linear / degree / slowest + exchange});
  }

  void try_window(std::size_t begin, std::size_t end, std::int64_t start, std::int64_t most) {
    const double time = time_in(begin, end, most);
    const double price = sums_[end].price - sums_[begin].price;
    const double idle =
        price * static_cast<double>(start) - (sums_[end].priced_end - sums_[begin].priced_end);
    const double late = std::max(0.0, static_cast<double>(start) + time - goal_);
    const double cost = price * time + trial_.gap_weight * idle + late * price * kLateWeight;
    if (cost >= best_.cost) return;
    best_.cost = cost;
    best_.ranks.assign(free_.begin() + static_cast<std::ptrdiff_t>(begin),
                       free_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  void commit(std::int32_t sequence_idx, StripSchedule& schedule) {
    std::sort(best_.ranks.begin(), best_.ranks.end());
    window_.clear();
    std::int64_t start = 0;
    for (const std::size_t rank : best_.ranks) {
      window_.push_back(members_[rank]);
      start = std::max(start, ends_[rank]);
    }
    UnevenCut cut = cut_unevenly(cost_, tokens_, window_);
    StripGroup group{
        .sequence_idx = sequence_idx, .start = start, .ranks = {}, .cut = std::move(cut.ranges)};
    const auto group_idx = static_cast<std::int32_t>(schedule.groups.size());
    for (const std::size_t rank : best_.ranks) {
      const auto own = static_cast<std::int32_t>(rank);
      if (ends_[rank] < start) gaps_.push_back({start - ends_[rank], own, group_idx});
      ends_[rank] = start + cut.time;
      group.ranks.push_back({own, own + 1});
    }
    schedule.groups.push_back(std::move(group));
  }

  const CostModel& cost_;
  const StepPlan& plan_;
  const Trial& trial_;
  double goal_;
  double all_layers_;
  std::vector<Member> members_;  // [num_ranks]
  std::vector<double> prices_;   // [num_ranks] of a rank's time
  std::vector<RankOrder> orders_;
  std::vector<std::int64_t> ends_;   // [num_ranks]
  std::vector<std::size_t> by_end_;  // ranks by end
  std::vector<std::size_t> free_;    // of one start time, in order
  std::vector<Sums> sums_;           // [free_ + 1]
  std::vector<Member> window_;
  std::vector<RankGap> gaps_;
  Tokens tokens_;
  double work_ns_ = 0;  // attention of the sequence, one layer forward at speed 1
  Choice best_;
};

StripSchedule schedule_uneven(const PlanRequest& request, const StepPlan& plan,
                              const StripInput& input, std::size_t num_shared, const Trial& trial) {
  StripSchedule schedule;
  UnevenPlacement placement(request, plan, trial);
  for (std::size_t i = 0; i < num_shared; ++i)
    placement.place(static_cast<std::int32_t>(i), schedule);
  WholeFiller filler(input, request.cost, request.cluster, plan.capacity, schedule);
  std::vector<RankGap> gaps = placement.gaps();
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const RankGap& a, const RankGap& b) { return a.length > b.length; });
  for (const RankGap& gap : gaps) filler.fill_gap(gap);
  filler.level(placement.ends());
  return schedule;
}

}  // namespace

// Groups are committed one after the other, each behind all earlier ones on its ranks, so their
// order of commitment is an order that all ranks agree with.
void plan_hdp_uneven(const PlanRequest& request, StepPlan& plan) {
  StripInput input;
  input.sequences = plan.sequences;
  input.num_ranks = plan.num_ranks;
  Tokens largest;
  for (std::int32_t r = 0; r < plan.num_ranks; ++r)
    largest = std::max(largest, request.cluster.capacity_of(Rank(r), plan.capacity));
  std::size_t num_shared = 0;
  while (num_shared < plan.sequences.size() && plan.sequences[num_shared].tokens > largest)
    ++num_shared;
  input.whole = whole_runs(plan.sequences, num_shared);
  StripSchedule best;
  for (std::size_t t = 0; t < kTrials.size(); ++t) {
    StripSchedule schedule = schedule_uneven(request, plan, input, num_shared, kTrials[t]);
    if (t == 0 || schedule.makespan < best.makespan) best = std::move(schedule);
  }
  StripAssembly(plan).append(input, best);
}

}  // namespace weft
