// StripScheduler: groups of fixed degrees and whole sequences on ranks that are all alike, but for
// a few that get whole sequences alone (the fast core of strategy "hdp").
//
// Groups are first placed in time alone (RankProfile), each as early as its D ranks are free, also
// in front of groups placed before; then ranks are given out in order of start, those that became
// free last first, so that few and short gaps remain, or by node_strip.h where hops inside a node
// are cheaper. Whole sequences then fill the gaps, longest first, and rise on all ranks to one
// level. Where a micro-batch has a large fixed cost, whole sequences first fill what the
// micro-batches of groups leave of the capacity, on all members alike. Work on every step is
// bounded by counts, so a plan does not depend on the machine.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

// A sequence to be shared: `degree` ranks for `duration` ns.
struct GangTask {
  std::int32_t sequence_idx = 0;
  std::int32_t degree = 2;
  std::int64_t duration = 0;       // at its best place
  std::int64_t between = 0;        // on ranks of several nodes; used where places matter
  std::int32_t first_beside = -1;  // as of StripGroup
};

// Whole sequences of one length, neighbours in canonical order.
struct WholeRun {
  std::int32_t first = 0;  // into StripInput::sequences
  std::int32_t count = 0;
};

// Ranks [begin, end).
struct RankInterval {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

struct StripGroup {
  std::int32_t sequence_idx = 0;
  std::int64_t start = 0;
  std::vector<RankInterval> ranks;  // ascending
  // Of each member, in rank order, the second one may be empty; none at all: the zigzag cut.
  std::vector<std::array<TokenRange, 2>> cut;
  // Into StripSchedule::beside, of the first member in ring order, the others follow; -1: none.
  std::int32_t first_beside = -1;
};

// Whole sequences of one micro-batch of a rank: one of their own before the rank's group
// `before_group` or after all, or that of a member of a group.
struct StripPack {
  std::int32_t rank = 0;          // not used beside a group
  std::int32_t before_group = 0;  // not used beside a group
  std::int32_t num_sequences = 0;
  Tokens room;              // that is left
  std::int32_t first = -1;  // into StripSchedule::runs; the others follow through `next`
  std::int32_t last = -1;
};

// Those of one length in a pack.
struct PackRun {
  WholeRun sequences;
  Tokens tokens;           // of each
  std::int32_t next = -1;  // of the same pack
};

struct StripSchedule {
  std::vector<StripGroup> groups;  // ascending start
  std::vector<StripPack> packs;    // those of a rank before one group in running order
  std::vector<StripPack> beside;   // in the micro-batches of groups, by first_beside
  std::vector<PackRun> runs;
  std::int64_t makespan = 0;  // as planned; evaluate() is the judge
};

struct StripInput {
  std::span<const SequenceSpec> sequences;  // of the whole step, canonical order
  std::vector<GangTask> tasks;              // longest duration first
  std::vector<WholeRun> whole;              // ascending: longest first; each within the capacity
  std::int32_t first_rank = 0;
  std::int32_t num_ranks = 1;
  std::int32_t ranks_per_node = 1;
  // Ranks of other speeds or memories, for whole sequences alone (like_ranks.h).
  std::int32_t first_odd = 0;
  std::int32_t num_odd = 0;
  double odd_width = 0;    // of like ranks as fast as these are together
  bool is_uneven = false;  // no rank need be like another

  std::int32_t num_all() const { return num_ranks + num_odd; }
  double width() const { return num_ranks + odd_width; }
  // Places 0 to num_all() - 1: the like ranks, then the odd ones.
  std::int32_t place_of(std::int32_t rank) const {
    return rank < first_rank + num_ranks && rank >= first_rank ? rank - first_rank
                                                               : num_ranks + rank - first_odd;
  }
  std::int32_t rank_at(std::int32_t place) const {
    return place < num_ranks ? first_rank + place : first_odd + place - num_ranks;
  }
};

// By duration; equal ones stay in order.
void sort_longest_first(std::vector<GangTask>& tasks);

// The runs of sequences[first..].
std::vector<WholeRun> whole_runs(std::span<const SequenceSpec> sequences, std::size_t first);

// REQUIRES: the ranks [first_rank, first_rank + num_ranks) are alike. `goal`: a makespan that is
// good enough to stop searching at. What `result` held is lost, its memory used.
void schedule_strip(const StripInput& input, const CostModel& cost, const ClusterSpec& cluster,
                    Tokens capacity, std::int64_t goal, StripSchedule& result);

}  // namespace weft
