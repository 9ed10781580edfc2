// The planner against the exact optimum of small steps, and against a relaxed integer program of
// larger ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/lower_bound.h"
#include "plan/planner.h"
#include "tests/support/sanitized.h"
#include "tests/unit/plan/exact_plan.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::request_of;
using testing::sequences_of;

// Lengths from a hundredth of the capacity to what all ranks hold, mixed log-uniform and at edges.
std::vector<SequenceSpec> small_step(const RandomStream& random, std::int32_t num_ranks,
                                     std::int64_t capacity) {
  std::vector<std::int64_t> lengths;
  const std::uint64_t count = 3 + random.below(0, 5);
  for (std::uint64_t i = 1; i <= count; ++i) {
    std::int64_t most = capacity * num_ranks;
    for (std::uint64_t halvings = random.below(3 * i, 9); halvings > 0; --halvings) most /= 2;
    lengths.push_back(1 + most / 2 +
                      static_cast<std::int64_t>(
                          random.below(3 * i + 1, static_cast<std::uint64_t>(most / 2 + 1))));
    lengths.back() = std::min(lengths.back(), capacity * num_ranks);
  }
  return sequences_of(lengths);
}

TEST(Optimum, FiveHundredSmallStepsAreWithinOnePercentOnAverageAndFiveAtWorst) {
  double sum = 0;
  double worst = 0;
  double bound_gap = 0;
  std::uint64_t worst_seed = 0;
  constexpr auto kCases = testing::unless_sanitized<std::uint64_t>(500, 50);
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const RandomStream random(seed, "small steps");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 3);
    const std::int64_t capacity = seed % 2 == 0 ? 8192 : 1000;
    const std::vector<SequenceSpec> sequences = small_step(random, num_ranks, capacity);
    const PlanRequest request = request_of("hdp", sequences, num_ranks, capacity);
    const StepPlan plan = make_plan(request);
    const Nanoseconds optimum = testing::exact_makespan(plan.sequences, request.cost, num_ranks,
                                                        Tokens(capacity), plan.makespan);
    ASSERT_LE(plan.lower_bound, optimum) << "seed " << seed;
    const double excess = ratio(plan.makespan, optimum) - 1;
    sum += excess;
    bound_gap += ratio(optimum, plan.lower_bound) - 1;
    if (excess > worst) {
      worst = excess;
      worst_seed = seed;
    }
  }
  fmt::print(
      "plans above the optimum of {} small steps: mean {:.3f} %, worst {:.2f} % (seed {}); optimum "
      "above the bound: mean {:.2f} %\n",
      kCases, 100 * sum / kCases, 100 * worst, worst_seed, 100 * bound_gap / kCases);
  EXPECT_LE(sum / kCases, 0.01);
  EXPECT_LE(worst, 0.05);
}

TEST(Optimum, SmallStepsOfRanksInNodesAreWithinOnePercentOnAverageAndFiveAtWorst) {
  double sum = 0;
  double worst = 0;
  double bound_gap = 0;
  std::uint64_t worst_seed = 0;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::uint64_t kCases = 10;  // ten times slower
#else
  constexpr std::uint64_t kCases = 100;
#endif
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const RandomStream random(seed, "small steps in nodes");
    const auto num_ranks = static_cast<std::int32_t>(3 + seed % 2);
    const auto ranks_per_node = static_cast<std::int32_t>(2 + seed / 2 % 2);
    const std::int64_t capacity = seed % 5 < 2 ? 8192 : 1000;
    const std::vector<SequenceSpec> sequences = small_step(random, num_ranks, capacity);
    PlanRequest request = request_of("hdp", sequences, num_ranks, capacity);
    request.cluster = uniform_cluster(num_ranks, ranks_per_node);
    request.cost.hop_ns_per_token *= 1 + 3 * (seed % 3);
    request.cost.node_hop_ns_per_token = 50;
    request.cost.node_hop_fixed_ns = 5000;
    const StepPlan plan = make_plan(request);
    const Nanoseconds optimum = testing::exact_makespan(
        plan.sequences, request.cost, num_ranks, Tokens(capacity), plan.makespan, ranks_per_node);
    ASSERT_LE(plan.lower_bound, optimum) << "seed " << seed;
    const double excess = ratio(plan.makespan, optimum) - 1;
    sum += excess;
    bound_gap += ratio(optimum, plan.lower_bound) - 1;
    if (excess > worst) {
      worst = excess;
      worst_seed = seed;
    }
  }
  fmt::print(
      "plans above the optimum of {} small steps in nodes: mean {:.3f} %, worst {:.2f} % (seed "
      "{}); optimum above the bound: mean {:.2f} %\n",
      kCases, 100 * sum / kCases, 100 * worst, worst_seed, 100 * bound_gap / kCases);
  EXPECT_LE(sum / kCases, 0.01);
  EXPECT_LE(worst, 0.05);
}

// Hand-checkable: two sequences that each fill one of two ranks; sharing both in one ring or in
// turn is dearer by the exchange.
TEST(Optimum, TheExactSearchKnowsAStepThatCanBeCheckedByHand) {
  const CostModel cost = testing::hand_cost();
  // 2 * (4 * 5 / 2) + 10 * 4 + 7 on each rank.
  EXPECT_EQ(testing::exact_makespan(sequences_of({4, 4}), cost, 2, Tokens(4),
                                    Nanoseconds(std::int64_t{1} << 40)),
            Nanoseconds(20 + 40 + 7));
  // One sequence of 4 alone: shared, each rank has 5 pairs and 2 tokens, and one hop of 5 + 3 * 2
  // of which attention hides half of its own time.
  EXPECT_EQ(testing::exact_makespan(sequences_of({4}), cost, 2, Tokens(4),
                                    Nanoseconds(std::int64_t{1} << 40)),
            Nanoseconds(10 + 20 + 7 + (11 - 5)));
  // Inside a node the hop takes 5 + 0 * 2, which attention hides.
  CostModel nodes = cost;
  nodes.node_hop_ns_per_token = 0;
  for (const auto& [ranks_per_node, exposed] : {std::pair(2, 0), std::pair(1, 11 - 5)}) {
    EXPECT_EQ(testing::exact_makespan(sequences_of({4}), nodes, 2, Tokens(4),
                                      Nanoseconds(std::int64_t{1} << 40), ranks_per_node),
              Nanoseconds(10 + 20 + 7 + exposed));
  }
}

}  // namespace
}  // namespace weft
