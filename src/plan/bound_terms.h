// What the lower bounds are made of: the least time and the least rank time of one sequence on a
// cluster, per layer forward. Internal to plan/; symbols as in docs/planner.md "Lower bounds".
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

// The largest groups that are inside one node: no other one has its hops.
struct NodeLimits {
  std::int32_t ranks = 0;  // that are not dead, of a node
  Tokens tokens;           // that a node holds
  bool hold(std::int32_t degree, Tokens sequence) const {
    return degree <= ranks && sequence <= tokens;
  }
};
NodeLimits node_limits(const ClusterSpec& cluster, Tokens capacity);

// What sequences add to the exposed exchange of all ranks, weighted by speed; negative where their
// attention hides exchange of others. A ring is inside a node or it is not, so what is exposed is
// at least either of two sums: over all rings, and over those that leave their node.
struct ExposedTerms {
  double all = 0;
  double leaving = 0;
  ExposedTerms& operator+=(const ExposedTerms& other);
  ExposedTerms operator-(const ExposedTerms& other) const;
  double least() const;  // 0 or more
};

class BoundTerms {
 public:
  BoundTerms(const CostModel& cost, const ClusterSpec& cluster, Tokens capacity);

  std::int32_t num_ranks() const { return num_ranks_; }  // those that are not dead
  Tokens largest_capacity() const { return Tokens(held_[1]); }
  Tokens all_capacity() const { return Tokens(held_.back()); }
  bool are_even() const { return is_even_; }  // in memory
  bool are_alike() const { return is_even_ && slowest_[1] == fastest_[1]; }
  double all_speed() const { return fastest_.back(); }
  double slowest(std::int32_t d) const { return slowest_[static_cast<std::size_t>(d)]; }
  double fastest(std::int32_t d) const { return fastest_[static_cast<std::size_t>(d)]; }

  double attention_ns(Tokens tokens) const;
  double linear_ns(Tokens tokens) const;
  // Least number of ranks that hold the sequence.
  std::int32_t smallest(Tokens tokens) const;
  // (D-1) hops of the least that some member holds.
  double exchange(Tokens tokens, std::int32_t degree) const;
  // No group of this degree finishes the sequence earlier.
  double time_ns(Tokens tokens, std::int32_t degree) const;
  double best_time_ns(Tokens tokens) const;
  // One hop of a group of this degree that has the sequence, at its best place.
  HopCost hop(Tokens tokens, std::int32_t degree) const {
    return cost_.hop(nodes_.hold(degree, tokens));
  }
  // Of one sequence at any degree of `least` or more.
  ExposedTerms least_exposed_ns(Tokens tokens, std::int32_t least) const;

 private:
  // In the degrees [least, most] with such hops.
  double least_exposed_ns(Tokens tokens, HopCost hop, std::int32_t least, std::int32_t most) const;

  const CostModel& cost_;
  NodeLimits nodes_;  // none where hops cost the same everywhere
  std::int32_t num_ranks_ = 0;
  bool is_even_ = true;             // all ranks hold the same
  std::vector<double> slowest_;     // [d]: sum of the d smallest speeds
  std::vector<double> fastest_;     // [d]: sum of the d largest speeds
  std::vector<std::int64_t> held_;  // [d]: tokens that the d largest memories hold
};

}  // namespace weft
