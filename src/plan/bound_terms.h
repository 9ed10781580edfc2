// What the lower bounds are made of: the least time and the least rank time of one sequence on a
// cluster, per layer forward. Internal to plan/; symbols as in docs/planner.md "Lower bounds".
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

class BoundTerms {
 public:
  BoundTerms(const CostModel& cost, const ClusterSpec& cluster, Tokens capacity);

  std::int32_t num_ranks() const { return num_ranks_; }  // those that are not dead
  Tokens largest_capacity() const { return Tokens(held_[1]); }
  Tokens all_capacity() const { return Tokens(held_.back()); }
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
  // What the sequence adds to the exposed exchange of all ranks, weighted by speed, at any degree
  // of `least` or more; negative when its attention hides exchange of others.
  double least_exposed_ns(Tokens tokens, std::int32_t least) const;

 private:
  const CostModel& cost_;
  std::int32_t num_ranks_ = 0;
  bool is_even_ = true;             // all ranks hold the same
  std::vector<double> slowest_;     // [d]: sum of the d smallest speeds
  std::vector<double> fastest_;     // [d]: sum of the d largest speeds
  std::vector<std::int64_t> held_;  // [d]: tokens that the d largest memories hold
};

}  // namespace weft
