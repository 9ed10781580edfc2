// PipelineDraft: a plan for ranks that are pipelines, all alike but for a few that get whole
// sequences alone (docs/planner.md "Pipelines").
//
// A rank is taken to need the sum of its micro-batches' stage times and (p - 1) / V times the
// largest of them. Groups come first, widest first, each inside a block of ranks with the same
// groups behind them, so that no rank waits for another, and inside a node where hops are cheaper
// there and it has the ranks; they are stacked up to a target, so that long groups follow long
// groups and few ranks pay for their bubble. Whole sequences then go to the rank that ends first,
// longest first, and are cut into packs of like duration on each rank: many small ones where they
// decide the bubble, few full ones beside larger groups. Decides on whole nanoseconds and square
// roots, so the same input gives the same plan everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/group_costs.h"
#include "plan/planner.h"
#include "plan/step_plan.h"
#include "plan/strip_schedule.h"

namespace weft {

class PipelineDraft {
 public:
  // REQUIRES: the first `num_like` ranks are alike and of full memory, and hold every sequence
  // together; plan header as for all strategies. Both outlive it.
  PipelineDraft(const PlanRequest& request, const StepPlan& header, std::int32_t num_like);

  // What a rank has to do; times of one stage at the speed of the like ranks.
  struct Lane {
    double slowness = 1;  // speed of a like rank over this one's
    Tokens capacity{};
    std::int64_t groups_end = 0;
    std::int64_t largest_group = 0;
    std::int64_t whole = 0;  // of its whole sequences, fixed costs left out
    std::int64_t longest_whole = 0;
    std::int64_t lateness = 0;
    Tokens tokens{};  // of its whole sequences
    std::vector<std::int32_t> sequences{};
  };
  struct PlacedGroup {
    std::int32_t sequence_idx = 0;
    std::vector<Rank> ranks;  // ascending
  };
  struct Draft {
    std::vector<PlacedGroup> groups;  // in running order
    std::vector<Lane> lanes;          // [num_ranks]
    std::vector<std::int64_t> ends;   // [num_ranks] as estimated, without lateness
    std::int64_t latest = 0;          // of them, with lateness
  };

  // The sequences to be shared, widest first: those that no rank holds, or that take longer than
  // `longest_pass` on fewer ranks.
  std::vector<GangTask> tasks(Nanoseconds longest_pass) const;
  // Where groups lie: on ranks with the same groups behind them; or on any that end at about the
  // same time, of which the earlier ones then wait.
  enum class Placing : std::uint8_t { kInBlocks, kOnLevels };
  // `target`: ns until which groups are stacked. `lateness`: [num_ranks] or empty, what each rank
  // is known to need beyond the estimate.
  Draft make(const std::vector<GangTask>& tasks, Placing placing, std::int64_t target,
             std::span<const std::int64_t> lateness) const;
  StepPlan plan_of(const Draft& draft) const;

 private:
  struct Block;
  std::int64_t stage_ns(Nanoseconds time) const { return time.value() / num_stages_; }
  // What a rank waits in all while its pipeline fills and drains.
  std::int64_t bubble(std::int64_t largest) const {
    return (num_stages_ - 1) * largest / num_chunks_;
  }
  // Packs that a lane's whole sequences are cut into.
  std::int64_t num_packs(const Lane& lane) const;
  std::int64_t end_of(const Lane& lane) const;
  // Where in the block a group lies.
  RankInterval place_in(const Block& block, std::int32_t degree) const;
  // The task's time in one stage on these ranks.
  std::int64_t stage_on(const GangTask& task, RankInterval ranks) const;
  std::size_t choose_block(const std::vector<Block>& blocks, const GangTask& task,
                           std::int64_t target) const;
  void place_in_blocks(const std::vector<GangTask>& tasks, std::int64_t target, Draft& draft) const;
  void place_on_levels(const std::vector<GangTask>& tasks, std::int64_t target, Draft& draft) const;
  void add_whole(std::size_t sequence, Lane& lane) const;
  // Of the lane with the sequence as well, lateness included.
  std::int64_t end_with(std::size_t sequence, Lane& lane) const;
  void deal_whole(std::span<const std::int64_t> lateness, Draft& draft) const;
  void append_packs(std::int32_t rank, const Lane& lane, StepPlan& plan) const;

  const PlanRequest& request_;
  const StepPlan& header_;
  GroupCosts costs_;
  std::int32_t num_stages_;
  std::int32_t num_chunks_;  // V
  std::int32_t num_like_;
  double speed_;                        // of the like ranks
  std::int64_t fixed_ns_;               // of a micro-batch in one stage
  std::vector<std::int64_t> whole_ns_;  // [sequences] in one stage, fixed cost left out
};

}  // namespace weft
