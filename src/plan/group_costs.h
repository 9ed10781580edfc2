// GroupCosts: what a group costs where planners have not placed it yet.
//
// A cost may have two prices of a hop (cost/cost_model.h): in a ring inside one node, and in any
// other. Planners choose degrees before places, so they take a group of at most as many ranks as a
// node has to be inside one, and place it there where that matters.
#pragma once

#include <cstdint>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"

namespace weft {

class GroupCosts {
 public:
  GroupCosts(const CostModel& cost, const ClusterSpec& cluster);

  // Every hop inside a node, or every hop between nodes.
  const CostModel& inside() const { return inside_; }
  const CostModel& between() const { return between_; }
  // Of a group of this degree at its best place.
  const CostModel& at_best(std::int32_t degree) const {
    return degree <= node_ranks_ ? inside_ : between_;
  }
  // Most ranks of a group whose hops may be cheaper for its place; 1: place is no matter.
  std::int32_t node_ranks() const { return node_ranks_; }
  // Whether two groups of one degree may cost unlike amounts.
  bool has_places() const { return has_places_; }

 private:
  CostModel inside_;
  CostModel between_;
  std::int32_t node_ranks_ = 1;
  bool has_places_ = false;
};

// The same cost where no place makes a difference: hops of a cluster of one node cost what they
// cost inside it, and where every rank is a node what they cost between nodes. Otherwise the cost.
CostModel simplified_cost(const CostModel& cost, const ClusterSpec& cluster);

}  // namespace weft
