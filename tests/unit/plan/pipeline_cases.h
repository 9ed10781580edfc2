// Steps of ranks that are pipelines, as several tests need them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan_builder.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft::testing {

inline constexpr Nanoseconds kNever{std::int64_t{1} << 62};

// A token costs `ns` forward and twice that backward in each of `num_layers` layers; no attention.
inline CostModel token_cost(double ns, std::int32_t num_layers) {
  CostModel cost = hand_cost();
  cost.attention_ns_per_pair = cost.fixed_ns = cost.hop_fixed_ns = cost.hop_ns_per_token = 0;
  cost.linear_ns_per_token = ns;
  cost.backward_ratio = 2;
  cost.num_layers = num_layers;
  return cost;
}

inline ClusterSpec pipelines(std::int32_t num_ranks, std::int32_t num_stages) {
  ClusterSpec cluster = uniform_cluster(num_ranks, 2);
  cluster.pipeline_stages = num_stages;
  return cluster;
}

// Whole sequences of these lengths, one micro-batch each, in this order on one rank.
inline StepPlan one_rank(const std::vector<std::int64_t>& lengths, const CostModel& cost,
                         std::int32_t num_stages) {
  StepPlan plan;
  plan.num_layers = cost.num_layers;
  plan.pipeline_stages = num_stages;
  plan.capacity = Tokens(1000);
  plan.sequences = sequences_of(lengths);
  sort_canonically(plan.sequences);
  PlanBuilder builder(plan);
  for (std::size_t id = 0; id < lengths.size(); ++id) {
    const auto at = std::find_if(plan.sequences.begin(), plan.sequences.end(), [&](const auto& s) {
      return s.id == static_cast<std::int64_t>(id);
    });
    builder.open_slot();
    builder.add_whole(static_cast<std::int32_t>(at - plan.sequences.begin()), Rank(0));
  }
  return plan;
}

}  // namespace weft::testing
