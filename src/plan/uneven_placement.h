// UnevenPlacement: gives shared sequences ranks of unequal speed and memory, one after the other.
//
// A rank's time has a price, made of its speed and its memory: ranks that hold much are kept for
// what needs memory, and slow ranks, on which attention hides more exchange, for what exposes it.
// A sequence looks at groups of several kinds (ranks that are cheap for what they hold; where all
// hold the same also neighbours in speed; where hops inside a node are cheaper also such ranks of
// one node) at several start times, behind all that was placed or in
// gaps between it, and takes the group that uses up the least. All choices are made in a fixed
// order, so equal inputs give equal schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/group_costs.h"
#include "plan/rank_times.h"
#include "plan/strip_schedule.h"
#include "plan/uneven_group.h"
#include "plan/whole_filler.h"

namespace weft {

struct UnevenGoal {
  std::int64_t time_ns = 0;  // makespan aimed at
  double late_weight = 4;    // of rank time after it
  // Of the price of time that a rank waits, which whole sequences may fill; and of the part of the
  // price that is above the rank's speed, which they do not bring in.
  double gap_weight = 0.5;  // above 0
  double premium_weight = 0;
  double member_weight = 0;  // of what a member more costs the others of a group
};

class UnevenPlacement {
 public:
  // `prices`: [ranks], of a rank's time.
  UnevenPlacement(const CostModel& cost, std::vector<Member> ranks, std::vector<double> prices,
                  const UnevenGoal& goal, std::int32_t ranks_per_node = 1);

  // What was chosen costs, in ns at a price of 1: rank time, waiting and lateness.
  double place(std::int32_t sequence_idx, Tokens tokens);
  // From now on a group's time costs this share of the price of all ranks besides that of its own:
  // groups are shorter and dearer.
  void set_haste(double haste) { hurry_price_ = haste * all_price_; }
  // What it costs all ranks that the last group ends after the goal.
  double lateness() const;
  // Groups in order of start. Call once, after the last place().
  std::vector<StripGroup> take_groups();
  // In front of groups, by their place in take_groups().
  const std::vector<RankGap>& gaps() const { return gaps_; }
  std::vector<RankEnd> ends() const;

 private:
  using Candidate = FreeRank;
  struct Sums {  // over the first candidates
    std::int64_t held = 0;
    double speed = 0;
    double price = 0;
    double used_price = 0;     // without time in gaps, so far as that has no other use
    double waiting_price = 0;  // of those that wait for the start
    double priced_since = 0;
    std::int64_t num_limited = 0;
  };
  struct Group {
    const Sums* first = nullptr;
    const Sums* last = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
    double largest = 0;  // tokens of a member
    double slowest = 0;  // speed
    bool is_in_node = false;
  };
  // Ranks by what they cost for what they hold of a sequence.
  struct PriceOrder {
    std::vector<std::uint32_t> ranks;
    std::int64_t level = 0;  // most that a member holds
  };
  // Of the ranks [begin, end).
  void add_price_order(std::int64_t level, double speed_value, std::uint32_t begin,
                       std::uint32_t end);
  void try_start(std::int64_t start, std::int64_t shortest);
  void add(const Candidate& free, std::int64_t level, Sums& sums) const;
  void collect(const std::vector<std::uint32_t>& order, std::int64_t level, std::int64_t enough);
  void try_cheapest(std::int64_t start, const PriceOrder& order);
  void try_windows(std::int64_t start, const std::vector<std::uint32_t>& order);
  double cost_of(std::int64_t start, const Group& group, double time, double waiting) const;
  double waiting_of(std::int64_t start, const Group& group) const;
  void try_group(std::int64_t start, const Group& group);
  double slowest_of(std::size_t begin, std::size_t end) const;
  bool share_node(std::uint32_t rank, std::uint32_t other) const;
  bool is_in_node(std::size_t begin, std::size_t end) const;  // of candidates
  double time_of(const Group& group) const;
  std::int64_t least_time() const;
  UnevenCut cut_over(std::vector<std::uint32_t>& ranks) const;  // sorts them
  void commit(std::int32_t sequence_idx);

  const CostModel* cost_;
  std::vector<Member> ranks_;
  std::int32_t ranks_per_node_;
  GroupCosts costs_;
  UnevenGoal goal_;
  double all_layers_ = 1;
  std::vector<double> price_;  // [ranks]
  double all_price_ = 0;
  double hurry_price_ = 0;
  std::vector<double> premium_;        // [ranks]: part of the price above the speed, weighted
  std::vector<double> waiting_price_;  // [ranks]: before the gap weight
  RankTimes times_;
  std::vector<PriceOrder> price_orders_;
  std::vector<std::vector<std::uint32_t>> speed_orders_;  // where all ranks hold the same
  // Of the sequence that is being placed:
  Tokens tokens_;
  double work_ns_ = 0;               // attention, one layer forward at speed 1
  std::vector<Candidate> free_now_;  // [ranks] of one start; until 0: not free
  std::vector<Candidate> candidates_;
  std::vector<Sums> sums_;  // [candidates + 1]
  double best_cost_ = 0;
  double best_time_ = 0;
  std::vector<std::uint32_t> best_ranks_;
  std::vector<std::uint32_t> trial_ranks_;
  std::int64_t best_start_ = 0;
  // Placed:
  std::vector<StripGroup> groups_;
  std::vector<std::int64_t> durations_;  // [groups]
  std::vector<RankGap> gaps_;
};

}  // namespace weft
