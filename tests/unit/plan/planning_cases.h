// Requests that several planner tests share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "cost/reference_cost.h"
#include "plan/planner.h"

namespace weft::testing {

inline const std::array<std::string, 3> kStrategies{"static", "hdp-naive", "hdp"};

inline std::vector<SequenceSpec> sequences_of(const std::vector<std::int64_t>& lengths) {
  std::vector<SequenceSpec> sequences;
  for (const std::int64_t tokens : lengths) {
    sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                         .tokens = Tokens(tokens),
                         .num_targets = tokens - 1});
  }
  return sequences;
}

inline PlanRequest request_of(const std::string& strategy, std::vector<SequenceSpec> sequences,
                              std::int32_t num_ranks, std::int64_t capacity) {
  PlanRequest request;
  request.sequences = std::move(sequences);
  request.cluster = uniform_cluster(num_ranks, 8);
  request.cost = reference_cost_7b();
  request.options.strategy = strategy;
  request.options.capacity = Tokens(capacity);
  return request;
}

// One layer, no backward: small whole numbers that can be checked by hand.
inline CostModel hand_cost() {
  return {.name = "hand",
          .source = "test",
          .num_layers = 1,
          .attention_ns_per_pair = 2,
          .linear_ns_per_token = 10,
          .fixed_ns = 7,
          .hop_ns_per_token = 3,
          .hop_fixed_ns = 5,
          .backward_ratio = 0};
}

// A step of up to `most` sequences with lengths at the edges: 1, 2, D-1, D, D+1, 2D, C-1, C, C+1,
// 2C, N*C.
inline std::vector<SequenceSpec> edge_sequences(const RandomStream& random, std::int32_t num_ranks,
                                                std::int64_t capacity, std::uint64_t most) {
  const std::int64_t n = num_ranks;
  const std::vector<std::int64_t> edges{
      1,           2, n - 1, n, n + 1, 2 * n, capacity - 1, capacity, capacity + 1, 2 * capacity,
      n * capacity};
  std::vector<std::int64_t> lengths;
  const std::uint64_t count = random.below(0, most + 1);
  for (std::uint64_t i = 1; i <= count; ++i) {
    const std::int64_t edge = edges[random.below(3 * i, edges.size())];
    const auto any = static_cast<std::int64_t>(random.below(
        3 * i + 1,
        static_cast<std::uint64_t>(random.below(3 * i + 2, 4) == 0 ? n * capacity : capacity)));
    const std::int64_t tokens = random.below(3 * i + 2, 2) == 0 ? edge : any + 1;
    lengths.push_back(std::clamp<std::int64_t>(tokens, 1, n * capacity));
  }
  return sequences_of(lengths);
}

}  // namespace weft::testing
