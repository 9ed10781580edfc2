// LikeRanks: a cluster of which most ranks are alike, put in an order in which the like ones come
// first. A straggler or two among thousands of ranks then leave planning as fast as without them:
// groups take like ranks, the odd ones whole sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/cluster_spec.h"
#include "plan/step_plan.h"

namespace weft {

struct LikeRanks {
  std::vector<std::int32_t> order;  // [num_ranks]: the rank of the cluster at each place
  std::int32_t num_like = 0;        // the first ones
  Tokens capacity;                  // of a like rank; no odd one is taken to hold more
  // In that order, memory in shares of `capacity`. All like ranks are as slow as the slowest of
  // them.
  ClusterSpec cluster;
};

// Ranks are alike whose speeds differ by less than 1 % and that hold at least what most of them
// hold. With `whole_nodes` all ranks of a node are odd of which one is, so that the others stay in
// nodes. nullopt: less than half of the ranks are alike. REQUIRES: no rank is dead.
std::optional<LikeRanks> find_like_ranks(const ClusterSpec& cluster, Tokens capacity,
                                         bool whole_nodes);

// Gives rank i of the plan the place order[i] among `num_ranks` ranks; the others get nothing.
void rename_ranks(const std::vector<std::int32_t>& order, std::int32_t num_ranks, StepPlan& plan);

}  // namespace weft
