#include "sim/execution_spread.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/evaluate.h"
#include "plan/plan_builder.h"

namespace weft {
namespace {

constexpr double kPi = 3.14159265358979323846;

// A token takes 1 ms, both passes of the one layer.
CostModel cost_of(double spread_ns) {
  CostModel cost;
  cost.linear_ns_per_token = 5e5;
  cost.backward_ratio = 1;
  cost.spread_ns = spread_ns;
  return cost;
}

// `count` micro-batches of `tokens` on each rank; shared: one sequence over all ranks in each.
StepPlan equal_ranks(std::int32_t num_ranks, int count, std::int64_t tokens, bool shared) {
  StepPlan plan;
  plan.num_ranks = num_ranks;
  std::vector<Rank> all;
  for (std::int32_t r = 0; r < num_ranks; ++r) all.emplace_back(r);
  const int num_sequences = shared ? count : count * num_ranks;
  const std::int64_t length = shared ? tokens * num_ranks : tokens;
  for (int id = 0; id < num_sequences; ++id)
    plan.sequences.push_back({.id = id, .tokens = Tokens(length), .num_targets = length - 1});
  PlanBuilder builder(plan);
  std::int32_t idx = 0;
  for (int m = 0; m < count; ++m) {
    if (shared) {
      builder.open_slot();
      builder.add_shared(idx++, all);
      continue;
    }
    for (const Rank rank : all) {
      builder.open_slot();
      builder.add_whole(idx++, rank);
    }
  }
  return plan;
}

double delay_s(const StepPlan& plan, const CostModel& cost) {
  const ClusterSpec cluster = uniform_cluster(plan.num_ranks, plan.num_ranks);
  SimulationInput input;
  input.plan = &plan;
  input.cost = &cost;
  input.cluster = &cluster;
  return seconds(mean_delay_by_spread(input, simulate_step(input).micro_batches_time));
}

TEST(ExecutionSpread, ARankAloneAndACostWithoutSpreadLoseNothing) {
  EXPECT_LT(delay_s(equal_ranks(1, 5, 80, false), cost_of(4e5)), 1e-7) << "but for rounding up";
  EXPECT_EQ(delay_s(equal_ranks(8, 5, 80, false), cost_of(0)), 0);
}

TEST(ExecutionSpread, TwoEqualRanksLoseTheMeanOfTheLargerOfTwo) {
  // sd of each: sqrt(spread * time); the larger of two lies sd / sqrt(pi) above their mean.
  const double sd_s = std::sqrt(4e-4 * 0.4);
  EXPECT_NEAR(delay_s(equal_ranks(2, 1, 400, false), cost_of(4e5)), sd_s / std::sqrt(kPi),
              0.2 * sd_s / std::sqrt(kPi));
}

TEST(ExecutionSpread, SixteenEqualRanksLose177DeviationsInOneMicroBatchOrMany) {
  // The mean of the largest of 16 normal numbers is 1.766. Ranks that do not meet lose as much in
  // four micro-batches of 100 ms as in one of 400 ms: the deviations of their sums are the same.
  const double sd_s = std::sqrt(4e-4 * 0.4);
  EXPECT_NEAR(delay_s(equal_ranks(16, 1, 400, false), cost_of(4e5)), 1.766 * sd_s, 0.3 * sd_s);
  EXPECT_NEAR(delay_s(equal_ranks(16, 4, 100, false), cost_of(4e5)), 1.766 * sd_s, 0.3 * sd_s);
}

TEST(ExecutionSpread, RanksThatMeetInEachMicroBatchLoseAtEachMeeting) {
  const double sd_s = std::sqrt(4e-4 * 0.1);  // of one of four
  EXPECT_NEAR(delay_s(equal_ranks(16, 4, 100, true), cost_of(4e5)), 4 * 1.766 * sd_s,
              4 * 0.2 * sd_s);
}

TEST(ExecutionSpread, WhereOneRankIsFarAheadOfTheOthersNothingIsLost) {
  StepPlan plan = equal_ranks(4, 1, 100, false);
  plan.sequences[0].tokens = Tokens(400);
  plan.ranks[0][0].pieces[0].range.end = 400;
  EXPECT_LT(delay_s(plan, cost_of(4e5)), 1e-6);
}

TEST(ExecutionSpread, FactorsHaveMeanOneAndTheVarianceThatTheSpreadSays) {
  double sum = 0, squares = 0;
  constexpr int kMost = 200;
  for (std::int32_t execution = 1; execution <= 20; ++execution) {
    for (std::int32_t rank = 0; rank < kMost; ++rank) {
      const double factor = execution_factor(3e5, execution, rank, rank % 7, 1e8);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
    }
  }
  EXPECT_NEAR(sum / (20 * kMost), 1, 1e-12);
  EXPECT_NEAR(squares / (20 * kMost), 3e5 / 1e8, 0.1 * 3e5 / 1e8);
  EXPECT_EQ(execution_factor(3e5, 0, 5, 5, 1e8), 1);
  EXPECT_EQ(execution_factor(0, 3, 5, 5, 1e8), 1);
  // Micro-batches far shorter than the spread: still twice at most, and on average no longer.
  for (std::int32_t execution = 1; execution < 40; execution += 2) {
    const double slow = execution_factor(5e5, execution, 0, 3, 1e4);
    EXPECT_GE(slow, 0);
    EXPECT_LE(slow, 2);
    EXPECT_NEAR(slow + execution_factor(5e5, execution + 1, 0, 3, 1e4), 2, 1e-12);
  }
}

}  // namespace
}  // namespace weft
