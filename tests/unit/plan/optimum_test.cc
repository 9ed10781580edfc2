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

// How far the plans of small steps are above the exact optimum, and that above the bound.
class Excess {
 public:
  void add(std::uint64_t seed, const PlanRequest& request) {
    const StepPlan plan = make_plan(request);
    const Nanoseconds optimum = testing::exact_makespan(
        plan.sequences, request.cost, plan.num_ranks, request.options.capacity, plan.makespan,
        request.cluster.ranks_per_node);
    ASSERT_LE(plan.lower_bound, optimum) << "seed " << seed;
    const double excess = ratio(plan.makespan, optimum) - 1;
    ++num_steps_;
    sum_ += excess;
    bound_gap_ += ratio(optimum, plan.lower_bound) - 1;
    if (excess > worst_) {
      worst_ = excess;
      worst_seed_ = seed;
    }
  }
  void expect_small(std::string_view steps) const {
    fmt::print(
        "plans above the optimum of {} {}: mean {:.3f} %, worst {:.2f} % (seed {}); optimum above "
        "the bound: mean {:.2f} %\n",
        num_steps_, steps, 100 * sum_ / num_steps_, 100 * worst_, worst_seed_,
        100 * bound_gap_ / num_steps_);
    EXPECT_LE(sum_ / num_steps_, 0.01);
    EXPECT_LE(worst_, 0.05);
  }

 private:
  int num_steps_ = 0;
  double sum_ = 0;
  double worst_ = 0;
  double bound_gap_ = 0;
  std::uint64_t worst_seed_ = 0;
};

TEST(Optimum, FiveHundredSmallStepsAreWithinOnePercentOnAverageAndFiveAtWorst) {
  Excess excess;
  for (std::uint64_t seed = 0; seed < testing::unless_sanitized<std::uint64_t>(500, 50); ++seed) {
    const RandomStream random(seed, "small steps");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 3);
    const std::int64_t capacity = seed % 2 == 0 ? 8192 : 1000;
    const std::vector<SequenceSpec> sequences = small_step(random, num_ranks, capacity);
    ASSERT_NO_FATAL_FAILURE(excess.add(seed, request_of("hdp", sequences, num_ranks, capacity)));
  }
  excess.expect_small("small steps");
}

TEST(Optimum, SmallStepsOfRanksInNodesAreWithinOnePercentOnAverageAndFiveAtWorst) {
  Excess excess;
  for (std::uint64_t seed = 0; seed < testing::unless_sanitized<std::uint64_t>(100, 10); ++seed) {
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
    ASSERT_NO_FATAL_FAILURE(excess.add(seed, request));
  }
  excess.expect_small("small steps in nodes");
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
