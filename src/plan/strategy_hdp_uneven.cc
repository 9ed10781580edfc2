// Strategy "hdp" for ranks of unequal speed or memory.
//
// Ranks are taken in order of capacity / speed (the tokens a rank can hold for each unit of its
// speed): like ranks fill and end together. Longest sequence first, each takes of several windows
// in that order the one that wastes the least rank time. Whole sequences then fill gaps and level
// the ends, each rank by its own speed and memory.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "plan/strategy.h"
#include "plan/strip_assembly.h"
#include "plan/uneven_group.h"
#include "plan/whole_filler.h"

namespace weft {
namespace {

constexpr std::size_t kNumStarts = 6;    // start times tried for a sequence
constexpr std::size_t kNumWindows = 12;  // places in the order of ranks tried for each
constexpr std::array<double, 3> kStretches{1.0, 1.12, 1.3};  // held tokens over the sequence's
constexpr double kGapWeight = 0.5;  // of a gap that whole sequences may fill

class UnevenPlacement {
 public:
  UnevenPlacement(const PlanRequest& request, const StepPlan& plan)
      : cost_(request.cost), plan_(plan), goal_(plan.lower_bound.value()) {
    const ClusterSpec& cluster = request.cluster;
    const auto num_ranks = static_cast<std::size_t>(plan.num_ranks);
    order_.resize(num_ranks);
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t r = 0; r < num_ranks; ++r) {
      const Rank rank(static_cast<std::int64_t>(r));
      members_.push_back({.speed = cluster.speed_of(rank),
                          .capacity = cluster.capacity_of(rank, plan.capacity).value()});
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return static_cast<double>(members_[a].capacity) * members_[b].speed >
             static_cast<double>(members_[b].capacity) * members_[a].speed;
    });
    ends_.resize(num_ranks);
  }

  // Appends the group to `schedule` and its gaps to gaps().
  void place(std::int32_t sequence_idx, StripSchedule& schedule) {
    best_ = {};
    tokens_ = plan_.sequences[static_cast<std::size_t>(sequence_idx)].tokens;
    std::vector<std::int64_t> sorted(ends_);
    std::sort(sorted.begin(), sorted.end());
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::size_t tried = 0;
    for (std::size_t at = 0; at < sorted.size() && tried < kNumStarts;) {
      const bool is_enough = try_start(sorted[at]);
      tried += is_enough ? 1 : 0;
      const std::size_t step = is_enough ? (sorted.size() - at) / (kNumStarts - tried + 1) : 0;
      at +=
          std::max<std::size_t>(step, is_enough ? 1 : std::max<std::size_t>(1, sorted.size() / 64));
      if (at >= sorted.size() && tried == 0) at = sorted.size() - 1;
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
  struct Choice {
    double waste = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> ranks;  // in order of capacity / speed
    UnevenShares shares;
    std::int64_t start = 0;
  };

  // Groups of ranks that are free at `start`; false when those do not hold the sequence.
  bool try_start(std::int64_t start) {
    free_.clear();
    held_.assign(1, 0);
    for (const std::size_t rank : order_) {
      if (ends_[rank] > start) continue;
      free_.push_back(rank);
      held_.push_back(held_.back() + members_[rank].capacity);
    }
    if (held_.back() < tokens_.value()) return false;
    const std::int64_t slack = held_.back() - tokens_.value();
    for (std::size_t w = 0; w < kNumWindows; ++w) {
      // Windows that begin after up to `slack` tokens of capacity.
      const std::int64_t before =
          slack / static_cast<std::int64_t>(kNumWindows - 1) * static_cast<std::int64_t>(w);
      const auto begin = static_cast<std::size_t>(
          std::upper_bound(held_.begin(), held_.end(), before) - held_.begin() - 1);
      for (const double stretch : kStretches) {
        const auto wanted = held_[begin] + static_cast<std::int64_t>(
                                               stretch * static_cast<double>(tokens_.value()));
        if (stretch > 1 && wanted > held_.back()) break;
        const auto end = static_cast<std::size_t>(
            std::lower_bound(held_.begin(), held_.end(), wanted) - held_.begin());
        if (static_cast<std::int64_t>(end - begin) > tokens_.value()) continue;
        try_window(begin, end);
      }
      if (slack == 0) break;
    }
    return true;
  }

  void try_window(std::size_t begin, std::size_t end) {
    window_.clear();
    std::int64_t start = 0;
    double speed = 0;
    double idle = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const Member& member = members_[free_[i]];
      window_.push_back(member);
      start = std::max(start, ends_[free_[i]]);
      speed += member.speed;
      idle -= member.speed * static_cast<double>(ends_[free_[i]]);
    }
    if (window_.size() < 2) return;
    const UnevenShares shares = uneven_shares(cost_, tokens_, window_);
    idle += speed * static_cast<double>(start);
    const double late = static_cast<double>(std::max<std::int64_t>(0, start + shares.time - goal_));
    // Rank time taken, whatever is done in it: for one sequence the least taken is the least
    // wasted.
    const double waste =
        speed * static_cast<double>(shares.time) + kGapWeight * idle + late * speed * 4;
    if (waste >= best_.waste) return;
    best_ = {.waste = waste,
             .ranks = {free_.begin() + static_cast<std::ptrdiff_t>(begin),
                       free_.begin() + static_cast<std::ptrdiff_t>(end)},
             .shares = shares,
             .start = start};
  }

  void commit(std::int32_t sequence_idx, StripSchedule& schedule) {
    window_.clear();
    for (const std::size_t rank : best_.ranks) window_.push_back(members_[rank]);
    const std::vector<std::int64_t> tokens =
        whole_tokens(tokens_, window_, best_.shares.tokens_per_speed);
    std::vector<std::size_t> by_rank(tokens.size());
    std::iota(by_rank.begin(), by_rank.end(), 0);
    std::sort(by_rank.begin(), by_rank.end(),
              [&](std::size_t a, std::size_t b) { return best_.ranks[a] < best_.ranks[b]; });
    StripGroup group{.sequence_idx = sequence_idx, .start = best_.start, .ranks = {}, .tokens = {}};
    const auto group_idx = static_cast<std::int32_t>(schedule.groups.size());
    for (const std::size_t i : by_rank) {
      const auto rank = static_cast<std::int32_t>(best_.ranks[i]);
      std::int64_t& end = ends_[best_.ranks[i]];
      if (end < best_.start) gaps_.push_back({best_.start - end, rank, group_idx});
      end = best_.start + best_.shares.time;
      group.ranks.push_back({rank, rank + 1});
      group.tokens.push_back(tokens[i]);
    }
    schedule.groups.push_back(std::move(group));
  }

  const CostModel& cost_;
  const StepPlan& plan_;
  std::int64_t goal_;
  std::vector<Member> members_;     // [num_ranks]
  std::vector<std::size_t> order_;  // ranks by capacity / speed, descending
  std::vector<std::int64_t> ends_;  // [num_ranks]
  std::vector<std::size_t> free_;   // of one start time, in order
  std::vector<std::int64_t> held_;  // capacity of the first i of free_
  std::vector<Member> window_;
  std::vector<RankGap> gaps_;
  Tokens tokens_;
  Choice best_;
};

}  // namespace

// Groups are committed one after the other, each behind all earlier ones on its ranks, so their
// order of commitment is an order that all ranks agree with.
void plan_hdp_uneven(const PlanRequest& request, StepPlan& plan) {
  StripSchedule schedule;
  StripInput input;
  input.sequences = plan.sequences;
  input.num_ranks = plan.num_ranks;
  UnevenPlacement placement(request, plan);
  Tokens largest;
  for (std::int32_t r = 0; r < plan.num_ranks; ++r)
    largest = std::max(largest, request.cluster.capacity_of(Rank(r), plan.capacity));
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const auto idx = static_cast<std::int32_t>(i);
    if (plan.sequences[i].tokens > largest) {
      placement.place(idx, schedule);
    } else {
      input.whole.push_back(idx);
    }
  }
  WholeFiller filler(input, request.cost, request.cluster, plan.capacity, schedule);
  std::vector<RankGap> gaps = placement.gaps();
  std::stable_sort(gaps.begin(), gaps.end(),
                   [](const RankGap& a, const RankGap& b) { return a.length > b.length; });
  for (const RankGap& gap : gaps) filler.fill_gap(gap);
  filler.level(placement.ends());
  StripAssembly(plan).append(input, schedule);
}

}  // namespace weft
