#include "plan/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/plan_builder.h"
#include "plan/validate.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::hand_cost;
using testing::sequences_of;

// hand_cost without exchange: a whole sequence of s tokens takes s * (s + 1) + 10 * s + 7 ns.
std::int64_t whole_ns(std::int64_t s) { return s * (s + 1) + 10 * s + 7; }

StepPlan empty_plan(const std::vector<std::int64_t>& lengths, std::int32_t num_ranks,
                    std::int64_t capacity) {
  StepPlan plan;
  plan.strategy = "test";
  plan.num_ranks = num_ranks;
  plan.capacity = Tokens(capacity);
  plan.sequences = sequences_of(lengths);
  sort_canonically(plan.sequences);
  return plan;
}

TEST(Evaluate, ASlotStartsWhenAllItsRanksAreFreeAndLastsAsLongAsItsSlowest) {
  StepPlan plan = empty_plan({8, 4, 3}, 2, 8);
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(1, Rank(0));
  builder.open_slot();
  builder.add_shared(0, std::vector{Rank(0), Rank(1)});
  builder.open_slot();
  builder.add_whole(2, Rank(1));
  validate(plan);
  CostModel cost = hand_cost();
  cost.hop_ns_per_token = cost.hop_fixed_ns = 0;
  const Evaluation result = evaluate(plan, cost, uniform_cluster(2, 2));
  // Each member has 18 of the 36 pairs and 4 tokens.
  const std::int64_t shared = 2 * 18 + 10 * 4 + 7;
  EXPECT_EQ(result.slots[0], (SlotTime{Nanoseconds(0), Nanoseconds(whole_ns(4))}));
  EXPECT_EQ(result.slots[1],
            (SlotTime{Nanoseconds(whole_ns(4)), Nanoseconds(whole_ns(4) + shared)}));
  EXPECT_EQ(result.slots[2].start, result.slots[1].end);
  EXPECT_EQ(result.makespan, Nanoseconds(whole_ns(4) + shared + whole_ns(3)));
  EXPECT_EQ(result.ranks[0].busy, Nanoseconds(whole_ns(4) + shared));
  EXPECT_EQ(result.ranks[0].finish, result.slots[1].end);
  EXPECT_EQ(result.ranks[1].busy, Nanoseconds(shared + whole_ns(3)));
  EXPECT_EQ(result.ranks[0].tokens, Tokens(8));
  EXPECT_EQ(result.ranks[1].work, 18 + 6);
  EXPECT_EQ(result.ranks[1].num_micro_batches, 2);
  EXPECT_EQ(result.sharded_sequences, 1);
  EXPECT_EQ(result.max_degree, 2);
  EXPECT_EQ(result.exchange_tokens, Tokens(8));
  const double busy = static_cast<double>((result.ranks[0].busy + result.ranks[1].busy).value());
  EXPECT_DOUBLE_EQ(result.imbalance, static_cast<double>(result.ranks[0].busy.value()) * 2 / busy);
  EXPECT_DOUBLE_EQ(result.idle_share, 1 - busy / 2 / static_cast<double>(result.makespan.value()));
}

TEST(Evaluate, TheSlowestMemberOfAnUnequalCutSetsHopsAndDuration) {
  StepPlan plan = empty_plan({6}, 2, 5);
  plan.num_slots = 1;
  plan.groups = {{.sequence_idx = 0, .slot_idx = 0, .ranks = {Rank(0), Rank(1)}}};
  plan.ranks = {{{.slot_idx = 0, .offload_ratio = 0, .pieces = {{0, 0, {0, 5}}}}},
                {{.slot_idx = 0, .offload_ratio = 0, .pieces = {{0, 0, {5, 6}}}}}};
  validate(plan);
  // One hop of 5 + 3 * 5 = 20 ns. Rank 0: 15 pairs, 30 ns, half hides 15. Rank 1: 6 pairs, 12 ns,
  // half hides 6.
  const Evaluation result = evaluate(plan, hand_cost(), uniform_cluster(2, 2));
  EXPECT_EQ(result.ranks[0].busy, Nanoseconds(30 + 50 + 7 + 5));
  EXPECT_EQ(result.ranks[1].busy, Nanoseconds(12 + 10 + 7 + 14));
  EXPECT_EQ(result.makespan, Nanoseconds(92));
}

TEST(Evaluate, SequencesOnOneRingShareItsHops) {
  StepPlan plan = empty_plan({4, 2}, 3, 4);
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_shared(0, std::vector{Rank(0), Rank(1)});
  builder.add_shared(1, std::vector{Rank(0), Rank(1)});
  validate(plan);
  CostModel cost = hand_cost();
  cost.attention_ns_per_pair = 0;
  // One hop with the K and V of 2 + 1 tokens: 5 + 3 * 3.
  EXPECT_EQ(evaluate(plan, cost, uniform_cluster(3, 3)).makespan, Nanoseconds(30 + 7 + 14));
  // The same two sequences on rings of other members: a hop each, 5 + 3 * 2 and 5 + 3 * 1.
  plan.groups[1].ranks = {Rank(1), Rank(0)};
  EXPECT_EQ(evaluate(plan, cost, uniform_cluster(3, 3)).makespan, Nanoseconds(30 + 7 + 11 + 8));
}

TEST(Evaluate, AWholeSequenceBetweenTheGroupsOfARingDoesNotSplitIt) {
  StepPlan plan = empty_plan({4, 3, 2}, 2, 8);
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_shared(0, std::vector{Rank(0), Rank(1)});
  builder.add_shared(2, std::vector{Rank(0), Rank(1)});
  builder.add_whole(1, Rank(0));
  auto& pieces = plan.ranks[0].at(0).pieces;
  const auto last_of_ring = std::find_if(pieces.begin(), pieces.end(),
                                         [](const Piece& piece) { return piece.group_idx == 1; });
  std::rotate(last_of_ring, pieces.end() - 1, pieces.end());
  validate(plan);
  CostModel cost = hand_cost();
  cost.attention_ns_per_pair = 0;
  // 3 + 3 tokens here, and one hop with the K and V of 2 + 1 tokens: 5 + 3 * 3.
  EXPECT_EQ(evaluate(plan, cost, uniform_cluster(2, 2)).makespan, Nanoseconds(60 + 7 + 14));
}

TEST(Evaluate, WholeSequencesInAMicroBatchPayTheFixedCostOnce) {
  StepPlan plan = empty_plan({3, 2}, 1, 5);
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(0, Rank(0));
  builder.add_whole(1, Rank(0));
  EXPECT_EQ(evaluate(plan, hand_cost(), uniform_cluster(1, 1)).makespan,
            Nanoseconds(whole_ns(3) + whole_ns(2) - 7));
}

TEST(Evaluate, ASlowRankTakesLonger) {
  StepPlan plan = empty_plan({3}, 2, 5);
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(0, Rank(1));
  ClusterSpec cluster = uniform_cluster(2, 2);
  cluster.speed = {1.0, 0.5};
  EXPECT_EQ(evaluate(plan, hand_cost(), cluster).makespan, Nanoseconds(2 * whole_ns(3)));
}

TEST(Evaluate, AnEmptyPlanTakesNoTime) {
  StepPlan plan = empty_plan({}, 3, 5);
  plan.ranks.resize(3);
  const Evaluation result = evaluate(plan, hand_cost(), uniform_cluster(3, 3));
  EXPECT_EQ(result.makespan, Nanoseconds(0));
  EXPECT_EQ(result.max_degree, 0);
  EXPECT_EQ(result.idle_share, 0);
  EXPECT_EQ(result.imbalance, 1);
}

TEST(Evaluate, RefusesAnotherNumberOfRanksAndACycle) {
  StepPlan plan = empty_plan({4, 4}, 2, 8);
  PlanBuilder builder(plan);
  for (const std::int32_t sequence_idx : {0, 1}) {
    builder.open_slot();
    builder.add_shared(sequence_idx, std::vector{Rank(0), Rank(1)});
  }
  EXPECT_THROW(evaluate(plan, hand_cost(), uniform_cluster(3, 3)), UserError);
  std::swap(plan.ranks[0][0], plan.ranks[0][1]);
  EXPECT_THROW(evaluate(plan, hand_cost(), uniform_cluster(2, 2)), UserError);
}

// One sequence of 2^32 - 1 tokens has nearly 2^63 pairs; two of them on a rank have more.
TEST(Evaluate, SumsThatDoNotFitAreRefusedInsteadOfTurningNegative) {
  constexpr std::int64_t kLongest = (std::int64_t{1} << 32) - 1;
  const auto refusal = [](std::int64_t length, const CostModel& cost) -> std::string {
    StepPlan plan = empty_plan({length, length, length}, 1, length);
    PlanBuilder builder(plan);
    for (const std::int32_t sequence : {0, 1, 2}) {
      builder.open_slot();
      builder.add_whole(sequence, Rank(0));
    }
    validate(plan);
    try {
      evaluate(plan, cost, uniform_cluster(1, 1));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal(kLongest, CostModel()),
            "evaluate: the work of a rank exceeds 2^63; plan fewer or shorter sequences");
  CostModel slow;
  slow.fixed_ns = 1.3e18;
  EXPECT_EQ(refusal(1, slow),
            "evaluate: the time in nanoseconds exceeds 2^63; plan fewer or shorter sequences");
  slow.fixed_ns = 1e18;
  EXPECT_EQ(refusal(1, slow), "no error");
}

}  // namespace
}  // namespace weft
