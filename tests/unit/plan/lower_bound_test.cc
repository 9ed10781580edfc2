#include "plan/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "plan/evaluate.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::edge_sequences;
using testing::hand_cost;
using testing::request_of;
using testing::sequences_of;

LowerBound bound_of(std::vector<SequenceSpec> sequences, const CostModel& cost,
                    std::int32_t num_ranks, std::int64_t capacity) {
  sort_canonically(sequences);
  return lower_bound(sequences, cost, uniform_cluster(num_ranks, 8), Tokens(capacity));
}

// Random coefficients of every relation: exchange free or dear, attention free or dear, no fixed
// cost.
CostModel random_cost(const RandomStream& random) {
  CostModel cost = hand_cost();
  constexpr std::array<double, 5> kScales{0, 0.01, 1, 10, 1000};
  cost.attention_ns_per_pair *= kScales[random.below(0, 5)];
  cost.linear_ns_per_token *= kScales[random.below(1, 5)];
  cost.fixed_ns *= kScales[random.below(2, 5)];
  cost.hop_ns_per_token *= kScales[random.below(3, 5)];
  cost.hop_fixed_ns *= kScales[random.below(4, 5)];
  cost.ring_step_ns_per_token = kScales[random.below(7, 5)];
  cost.ring_step_fixed_ns = 3 * kScales[random.below(8, 5)];
  cost.num_layers = static_cast<std::int32_t>(1 + random.below(5, 3));
  cost.backward_ratio = 2.5 * static_cast<double>(random.below(6, 2));
  return cost;
}

// Hops inside a node cost from nothing to as much as others, or the cost does not tell them apart.
CostModel with_node_hops(CostModel cost, const RandomStream& random) {
  constexpr std::array<double, 4> kShares{0, 0.1, 0.5, 1};
  if (random.below(60, 4) > 0)
    cost.node_hop_ns_per_token = kShares[random.below(61, 4)] * cost.hop_ns_per_token;
  if (random.below(62, 4) > 0)
    cost.node_hop_fixed_ns = kShares[random.below(63, 4)] * cost.hop_fixed_ns;
  return cost;
}

ClusterSpec random_cluster(const RandomStream& random, std::int32_t num_ranks) {
  ClusterSpec cluster = uniform_cluster(num_ranks, 2);
  if (random.below(10, 2) == 0) return cluster;
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    cluster.speed.push_back(0.25 + 2 * random.uniform(11 + static_cast<std::uint64_t>(r)));
  }
  return cluster;
}

TEST(LowerBound, WorkIsTotalComputeAndOneFixedCostForEachCapacityOverAllRanks) {
  // 4 sequences of 2 tokens: 3 pairs, 2 tokens each; 8 tokens at a capacity of 4: two micro-batches
  // at least.
  const LowerBound bound = bound_of(sequences_of({2, 2, 2, 2}), hand_cost(), 2, 4);
  EXPECT_NEAR(static_cast<double>(bound.work.value()), (4 * (2 * 3 + 10 * 2) + 2 * 7) / 2.0, 2);
}

TEST(LowerBound, LongestIsTheBestDegreeOfTheLongestSequence) {
  CostModel cost = hand_cost();
  cost.hop_fixed_ns = 1e6;  // any exchange is dear: one rank is best
  const LowerBound whole = bound_of(sequences_of({4, 1}), cost, 4, 4);
  EXPECT_NEAR(static_cast<double>(whole.longest.value()), 2 * 10 + 40 + 7, 2);
  // Below its capacity it must be shared: two ranks, one hop of 1e6 + 3 * 2.
  const LowerBound shared = bound_of(sequences_of({4, 1}), cost, 4, 2);
  EXPECT_NEAR(static_cast<double>(shared.longest.value()), 10.0 / 2 + 20 + 7 + 1e6 + 6, 3);
}

TEST(LowerBound, SequencesThatCannotShareTheClusterRunInTurn) {
  // 2 ranks x 8 tokens: any two of 12, 11, 9 exceed 16 together, so they take turns; 7 fits
  // beside 9.
  const CostModel cost = hand_cost();
  const auto alone = [&](std::int64_t tokens) {
    return bound_of(sequences_of({tokens}), cost, 2, 8).longest.value();
  };
  const LowerBound bound = bound_of(sequences_of({12, 11, 9, 7}), cost, 2, 8);
  EXPECT_NEAR(static_cast<double>(bound.in_turn.value()),
              static_cast<double>(alone(12) + alone(11) + alone(9)), 6);
  EXPECT_EQ(bound_of(sequences_of({8, 8}), cost, 2, 8).in_turn,
            bound_of(sequences_of({8}), cost, 2, 8).longest);
}

// The mean speed of all ranks is one number, in whatever order they are summed.
TEST(LowerBound, ASequenceThatFillsAllUnequalRanksHasAFiniteBound) {
  for (std::int32_t num_ranks = 2; num_ranks <= 64; ++num_ranks) {
    ClusterSpec cluster = uniform_cluster(num_ranks, 8);
    std::int64_t all = 0;
    for (std::int32_t r = 0; r < num_ranks; ++r) {
      cluster.speed.push_back(0.6 + 0.4 * (r * 7 % 10) / 9);
      cluster.memory.push_back(r % 2 == 0 ? 1.0 : 0.5);
      all += r % 2 == 0 ? 1000 : 500;
    }
    const std::vector<SequenceSpec> sequences = sequences_of({all, 700, 1});
    const LowerBound bound = lower_bound(sequences, hand_cost(), cluster, Tokens(1000));
    EXPECT_GT(bound.memory, Nanoseconds(0)) << num_ranks << " ranks";
  }
}

TEST(LowerBound, NothingToDoNeedsNoTime) {
  EXPECT_EQ(bound_of({}, hand_cost(), 3, 8).best(), Nanoseconds(0));
}

TEST(LowerBound, IsNeverAboveAnyPlanOfRandomSequencesCostsAndSpeeds) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomStream random(seed, "lower bound sweep");
    const auto num_ranks = static_cast<std::int32_t>(1 + seed % 8);
    const std::int64_t capacity = std::int64_t{1} << (3 + random.below(20, 6));
    const CostModel cost = random_cost(random);
    const ClusterSpec cluster = random_cluster(random, num_ranks);
    std::vector<SequenceSpec> sequences = edge_sequences(random, num_ranks, capacity, 12);
    const StepPlan plan = random_plan({.num_ranks = num_ranks,
                                       .sequences = sequences,
                                       .capacity = Tokens(capacity),
                                       .seed = seed,
                                       .allow_unequal_cuts = seed % 2 == 0});
    const LowerBound bound = lower_bound(plan.sequences, cost, cluster, Tokens(capacity));
    ASSERT_LE(bound.best(), evaluate(plan, cost, cluster).makespan)
        << "seed " << seed << ": work " << bound.work.value() << " longest "
        << bound.longest.value() << " in turn " << bound.in_turn.value() << " spread "
        << bound.spread.value();
    for (const std::string& strategy : testing::kStrategies) {
      PlanRequest request = request_of(strategy, sequences, num_ranks, capacity);
      request.cost = cost;
      request.cluster = cluster;
      const StepPlan made = make_plan(request);  // validate refuses a bound above the makespan
      ASSERT_LE(made.lower_bound, made.makespan) << "seed " << seed;
    }
  }
}

TEST(LowerBound, IsNeverAboveAnyPlanOfRanksInNodes) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const RandomStream random(seed, "bound of nodes");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 8);
    const std::int64_t capacity = std::int64_t{1} << (3 + random.below(20, 6));
    const CostModel cost = with_node_hops(random_cost(random), random);
    ClusterSpec cluster = random_cluster(random, num_ranks);
    cluster.ranks_per_node = static_cast<std::int32_t>(1 + random.below(64, 5));
    if (seed % 3 == 0) {
      for (std::int32_t r = 0; r < num_ranks; ++r)
        cluster.memory.push_back(0.5 + 0.5 * random.uniform(70 + static_cast<std::uint64_t>(r)));
    }
    const std::vector<SequenceSpec> sequences = edge_sequences(random, num_ranks, capacity / 2, 12);
    const StepPlan plan = random_plan({.num_ranks = num_ranks,
                                       .sequences = sequences,
                                       .capacity = Tokens(capacity / 2),
                                       .seed = seed,
                                       .allow_unequal_cuts = seed % 2 == 0});
    const LowerBound bound = lower_bound(plan.sequences, cost, cluster, Tokens(capacity));
    ASSERT_LE(bound.best(), evaluate(plan, cost, cluster).makespan)
        << "seed " << seed << ": work " << bound.work.value() << " longest "
        << bound.longest.value() << " in turn " << bound.in_turn.value() << " spread "
        << bound.spread.value() << " memory " << bound.memory.value() << " priced "
        << bound.priced.value();
    for (const char* strategy : {"static", "pow2", "hdp-naive", "hdp"}) {
      PlanRequest request = request_of(strategy, sequences, num_ranks, capacity);
      request.cost = cost;
      request.cluster = cluster;
      const StepPlan made = make_plan(request);
      ASSERT_LE(made.lower_bound, made.makespan) << "seed " << seed << ", " << strategy;
    }
  }
}

TEST(LowerBound, DegreesUpToANodeHaveItsHopsAndLargerOnesTheOthers) {
  CostModel cost = hand_cost();
  cost.hop_fixed_ns = 1000;
  cost.node_hop_fixed_ns = 1;
  const auto longest = [&](std::int32_t ranks_per_node) {
    return lower_bound(sequences_of({8}), cost, uniform_cluster(4, ranks_per_node), Tokens(4))
        .longest.value();
  };
  // Two ranks: 36 pairs, 4 tokens each, one hop of 1 + 3 * 4 of which attention hides nothing more
  // than it takes itself.
  EXPECT_NEAR(static_cast<double>(longest(2)), 2 * 36 / 2.0 + 10 * 4 + 7, 2);
  EXPECT_NEAR(static_cast<double>(longest(1)), 2 * 36 / 4.0 + 10 * 4 + 7 + 1000 + 12, 2);
}

// The least makespan over all rank subsets, orders and slot partitions of equal cuts; tiny cases
// only.
class BruteForce {
 public:
  BruteForce(std::vector<SequenceSpec> sequences, const CostModel& cost, std::int32_t num_ranks,
             Tokens capacity, std::int32_t ranks_per_node = 8)
      : cost_(cost), cluster_(uniform_cluster(num_ranks, ranks_per_node)), capacity_(capacity) {
    sort_canonically(sequences);
    base_.strategy = "brute force";
    base_.num_ranks = num_ranks;
    base_.capacity = capacity;
    base_.sequences = std::move(sequences);
  }

  Nanoseconds best() {
    subsets_.resize(base_.sequences.size());
    slots_.resize(base_.sequences.size());
    choose(0);
    return best_;
  }

 private:
  void choose(std::size_t i) {
    if (i == base_.sequences.size()) return judge();
    const std::int64_t tokens = base_.sequences[i].tokens.value();
    for (std::uint32_t subset = 1; subset < (1u << base_.num_ranks); ++subset) {
      const int degree = __builtin_popcount(subset);
      if (degree < smallest_degree(base_.sequences[i].tokens, capacity_) || degree > tokens)
        continue;
      subsets_[i] = subset;
      // The number of a slot is its place in the order; unused numbers do no harm.
      for (std::size_t slot = 0; slot < base_.sequences.size(); ++slot) {
        slots_[i] = slot;
        choose(i + 1);
      }
    }
  }

  void judge() {
    StepPlan plan = base_;
    PlanBuilder builder(plan);
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (std::find(slots_.begin(), slots_.end(), slot) == slots_.end()) continue;
      builder.open_slot();
      for (std::size_t i = 0; i < slots_.size(); ++i) {
        if (slots_[i] != slot) continue;
        std::vector<Rank> ranks;
        for (std::int32_t r = 0; r < base_.num_ranks; ++r) {
          if ((subsets_[i] >> r & 1u) != 0) ranks.emplace_back(r);
        }
        builder.add_shared(static_cast<std::int32_t>(i), ranks);
      }
    }
    for (const auto& micro_batches : plan.ranks) {
      for (const MicroBatch& micro_batch : micro_batches) {
        if (micro_batch.tokens() > capacity_) return;
      }
    }
    best_ = std::min(best_, evaluate(plan, cost_, cluster_).makespan);
  }

  StepPlan base_;
  CostModel cost_;
  ClusterSpec cluster_;
  Tokens capacity_;
  std::vector<std::uint32_t> subsets_;
  std::vector<std::size_t> slots_;
  Nanoseconds best_{std::int64_t{1} << 62};
};

TEST(LowerBound, IsNeverAboveTheOptimumAndHdpIsNearIt) {
  double total_excess = 0;
  int cases = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomStream random(seed, "brute force");
    const auto num_ranks = static_cast<std::int32_t>(1 + seed % 3);
    const std::int64_t capacity = seed % 2 == 0 ? 8 : 64;
    const CostModel cost = seed % 5 == 0 ? testing::hand_cost() : random_cost(random);
    const std::vector<SequenceSpec> sequences =
        edge_sequences(random, num_ranks, capacity, num_ranks == 3 ? 3 : 4);
    if (sequences.empty()) continue;
    const Nanoseconds optimum = BruteForce(sequences, cost, num_ranks, Tokens(capacity)).best();
    ASSERT_LE(bound_of(sequences, cost, num_ranks, capacity).best(), optimum) << "seed " << seed;
    PlanRequest request = request_of("hdp", sequences, num_ranks, capacity);
    request.cost = cost;
    if (optimum > Nanoseconds(0)) {
      total_excess += ratio(make_plan(request).makespan, optimum) - 1;
      ++cases;
    }
  }
  ASSERT_GT(cases, 30);
  RecordProperty("mean_excess_percent", std::to_string(100 * total_excess / cases));
  std::cout << "hdp above the optimum of " << cases << " tiny cases: " << 100 * total_excess / cases
            << " % on average\n";
  EXPECT_LT(total_excess / cases, 0.10);
}

TEST(LowerBound, IsNeverAboveTheOptimumOfRanksInNodesAndHdpIsNearIt) {
  double total_excess = 0;
  int cases = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const RandomStream random(seed, "brute force in nodes");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 2);
    const auto ranks_per_node = num_ranks - 1;
    const std::int64_t capacity = seed % 3 == 0 ? 8 : 64;
    const CostModel cost = with_node_hops(random_cost(random), random);
    const std::vector<SequenceSpec> sequences =
        edge_sequences(random, num_ranks, capacity, num_ranks == 3 ? 3 : 4);
    if (sequences.empty()) continue;
    const Nanoseconds optimum =
        BruteForce(sequences, cost, num_ranks, Tokens(capacity), ranks_per_node).best();
    PlanRequest request = request_of("hdp", sequences, num_ranks, capacity);
    request.cost = cost;
    request.cluster = uniform_cluster(num_ranks, ranks_per_node);
    const StepPlan plan = make_plan(request);
    ASSERT_LE(plan.lower_bound, optimum) << "seed " << seed;
    if (optimum > Nanoseconds(0)) {
      total_excess += ratio(plan.makespan, optimum) - 1;
      ++cases;
    }
  }
  ASSERT_GT(cases, 30);
  std::cout << "hdp above the optimum of " << cases
            << " tiny cases in nodes: " << 100 * total_excess / cases << " % on average\n";
  EXPECT_LT(total_excess / cases, 0.10);
}

}  // namespace
}  // namespace weft
