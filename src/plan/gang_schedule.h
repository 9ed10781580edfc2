// GangScheduler: where and when sequences of given degrees run (the inner part of strategy "hdp").
//
// A sequence with degree D > 1 needs D ranks at the same time. Such sequences are placed in the
// order given: a group starts as soon as D ranks are free, on those of the free ranks that became
// free last, so that ranks which have been free for longer stay open for smaller groups. Where hops
// inside a node are cheaper, a group takes the node in which it ends first, unless it ends earlier
// with ranks of several nodes. The time a
// rank waits for its group is a gap; whole sequences fill the gaps first, longest first, and then
// level the ends of the ranks. Whole sequences that run on a rank side by side are packed into
// micro-batches of at most C tokens, because each micro-batch costs c.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/group_costs.h"
#include "plan/node_choice.h"
#include "plan/step_plan.h"

namespace weft {

// A sequence that is to be shared by 2..min(num_ranks, tokens) ranks, enough for the capacity.
struct GroupRequest {
  std::int32_t sequence_idx = 0;
  std::int32_t degree = 2;
  friend bool operator==(const GroupRequest&, const GroupRequest&) = default;
};

struct PlacedGroup {
  std::int32_t sequence_idx = 0;
  std::vector<Rank> ranks;  // ring order
};

inline constexpr std::int32_t kAfterAllGroups = std::numeric_limits<std::int32_t>::max();

// Whole sequences that one rank runs as one micro-batch.
struct PlacedPack {
  Rank rank;
  std::int32_t before_group =
      kAfterAllGroups;  // runs in the gap before GangSchedule::groups[before_group]
  Tokens room;          // capacity left
  std::vector<std::int32_t> sequences;
};

struct GangSchedule {
  Nanoseconds makespan;
  std::vector<PlacedGroup> groups;  // each rank runs its groups in this order
  std::vector<PlacedPack> packs;
  std::vector<Nanoseconds> ends;  // [num_ranks]
};

class GangScheduler {
 public:
  GangScheduler(std::span<const SequenceSpec> sequences, const CostModel& cost,
                const ClusterSpec& cluster, Tokens capacity);

  // Every sequence that has no request runs whole on one rank. REQUIRES: those fit the capacity.
  GangSchedule run(std::span<const GroupRequest> requests) const;

 private:
  struct Gap;
  struct State;

  void place_group(std::size_t request_idx, const GroupRequest& request, State& state) const;
  std::int64_t end_of(const GroupRequest& request, const RankChoice& place, const State& state,
                      const CostModel& cost) const;
  void fill_gap(const Gap& gap, State& state) const;
  void level_ends(State& state) const;
  // A whole sequence's share of a micro-batch's time on this rank, c left out.
  std::int64_t whole_ns(std::int32_t sequence_idx, Rank rank) const;
  std::int64_t fixed_ns(Rank rank) const;

  std::span<const SequenceSpec> sequences_;
  GroupCosts costs_;
  const ClusterSpec& cluster_;
  Tokens capacity_;
  std::vector<std::int64_t>
      whole_ns_;               // [sequences] at speed 1, c left out; 0 for those above the capacity
  std::int64_t fixed_ns_ = 0;  // c of all layers at speed 1
};

}  // namespace weft
