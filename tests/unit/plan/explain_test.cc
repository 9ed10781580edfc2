#include "plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/plan_builder.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::hand_cost;
using ::testing::HasSubstr;
using testing::request_of;
using testing::sequences_of;

SequenceExplanation explain(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster,
                            std::int64_t id) {
  return explain_sequence(plan, evaluate(plan, cost, cluster), cost, cluster, id);
}

// 12 tokens over ranks 1 and 2 after 2 whole tokens on rank 2; 3 whole tokens on rank 0.
StepPlan hand_plan() {
  StepPlan plan;
  plan.num_ranks = 3;
  plan.capacity = Tokens(8);
  plan.sequences = sequences_of({12, 3, 2});
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(2, Rank(2));
  builder.open_slot();
  builder.add_shared(0, std::vector<Rank>{Rank(2), Rank(1)});
  builder.open_slot();
  builder.add_whole(1, Rank(0));
  plan.makespan = evaluate(plan, hand_cost(), uniform_cluster(3, 2)).makespan;
  return plan;
}

TEST(Explain, ASharedSequenceIsExplainedWithNumbersThatCanBeCheckedByHand) {
  const StepPlan plan = hand_plan();
  const SequenceExplanation about = explain(plan, hand_cost(), uniform_cluster(3, 2), 0);
  EXPECT_EQ(about.least_degree, 2);
  EXPECT_EQ(about.degree, 2);
  // Whole: 2 * 3 + 10 * 2 + 7. Shared: 39 pairs and 6 tokens a member, a hop of 5 + 3 * 6 of which
  // 39 hide all.
  EXPECT_EQ(about.slot, (SlotTime{33_ns, Nanoseconds(33 + 78 + 60 + 7)}));
  ASSERT_EQ(about.alone.size(), 2U);
  EXPECT_EQ(about.alone[0].degree, 2);
  EXPECT_EQ(about.alone[0].attention, 78_ns);
  EXPECT_EQ(about.alone[0].linear, 60_ns);
  EXPECT_EQ(about.alone[0].fixed, 7_ns);
  EXPECT_EQ(about.alone[0].exchange, 23_ns);
  EXPECT_EQ(about.alone[0].exposed, 0_ns);
  EXPECT_EQ(about.alone[0].total, 145_ns);
  EXPECT_EQ(about.alone[1].degree, 3);
  EXPECT_EQ(about.alone[1].exchange, 34_ns);
  ASSERT_EQ(about.parts.size(), 2U);
  EXPECT_EQ(about.parts[0].rank, Rank(2)) << "ring order";
  EXPECT_EQ(about.parts[0].node, 1);
  EXPECT_EQ(about.parts[0].micro_batch_idx, 1);
  EXPECT_EQ(about.parts[0].free_at, 33_ns);
  EXPECT_EQ(about.parts[1].free_at, 0_ns);
  EXPECT_EQ(about.parts[1].tokens, 6_tok);
  EXPECT_EQ(about.num_nodes, 2);
  EXPECT_EQ(about.least_nodes, 1);
  EXPECT_DOUBLE_EQ(about.makespan_share, 145.0 / 178);
  EXPECT_DOUBLE_EQ(about.rank_time_share, 2 * 145.0 / (2 * 145 + 33 + 12 + 30 + 7));
  EXPECT_THAT(about.why_degree, HasSubstr("2 is the fewest ranks that hold its 12 tokens"));
  EXPECT_THAT(about.why_ranks, HasSubstr("2 nodes (1 at least)"));
}

TEST(Explain, AWholeSequenceNeedsNoExchangeAndNamesItsRank) {
  const SequenceExplanation about = explain(hand_plan(), hand_cost(), uniform_cluster(3, 2), 1);
  EXPECT_EQ(about.degree, 1);
  EXPECT_EQ(about.sequence_idx, 1);
  ASSERT_EQ(about.parts.size(), 1U);
  EXPECT_EQ(about.parts[0].rank, Rank(0));
  EXPECT_EQ(about.slot, (SlotTime{0_ns, 49_ns}));
  EXPECT_THAT(about.why_degree, HasSubstr("fit on one rank"));
  EXPECT_THAT(about.why_ranks, HasSubstr("rank 0 is busy for"));
}

TEST(Explain, AWholeSequenceBesideASharedOneNamesIt) {
  StepPlan plan;
  plan.num_ranks = 2;
  plan.capacity = Tokens(8);
  plan.sequences = sequences_of({12, 2, 1});
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_shared(0, std::vector<Rank>{Rank(0), Rank(1)});
  builder.add_whole(1, Rank(1));
  builder.open_slot();
  builder.add_whole(2, Rank(0));
  plan.makespan = evaluate(plan, hand_cost(), uniform_cluster(2, 2)).makespan;
  const auto why = [&](std::int64_t id) {
    return explain(plan, hand_cost(), uniform_cluster(2, 2), id).why_ranks;
  };
  EXPECT_THAT(why(1), HasSubstr("which is the rank's part of shared sequence 0"));
  EXPECT_THAT(why(2), ::testing::Not(HasSubstr("shared sequence")));
}

TEST(Explain, AnUnknownIdIsRefusedWithTheRangeOfIds) {
  const StepPlan plan = hand_plan();
  for (const std::int64_t id : {-1, 3, 99}) {
    try {
      explain(plan, hand_cost(), uniform_cluster(3, 2), id);
      FAIL() << id;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("no sequence {}", id)));
      EXPECT_THAT(error.what(), HasSubstr("3 sequences, with ids from 0 to 2"));
    }
  }
  StepPlan empty;
  empty.ranks.resize(1);
  EXPECT_THROW(explain(empty, hand_cost(), uniform_cluster(1, 1), 0), UserError);
}

TEST(Explain, TheSequenceThatDrivesTheBoundIsToldFromTheOthers) {
  // One long sequence decides: alone it takes longer than everything else together.
  const PlanRequest request = request_of("hdp", sequences_of({4096, 8, 8}), 4, 1024);
  const StepPlan plan = make_plan(request);
  const SequenceExplanation longest = explain(plan, request.cost, request.cluster, 0);
  EXPECT_EQ(longest.bound.best(), plan.lower_bound);
  EXPECT_LT(longest.bound_without.best(), plan.lower_bound / 2);
  EXPECT_THAT(longest.why_bound, HasSubstr(std::string(deciding_bound(longest.bound))));
  EXPECT_THAT(longest.why_bound, HasSubstr("would fall from"));
  CostModel free_of_work = request.cost;
  free_of_work.linear_ns_per_token = free_of_work.attention_ns_per_pair = 0;
  free_of_work.fixed_ns = 0;
  free_of_work.hop_fixed_ns = 1e6;
  const SequenceExplanation other = explain(plan, free_of_work, request.cluster, 1);
  EXPECT_THAT(other.why_bound, HasSubstr("none: the bound of the step"));
}

TEST(Explain, EveryBoundHasItsName) {
  const auto named = [](Nanoseconds LowerBound::* member) {
    LowerBound bound;
    bound.*member = 1_ns;
    return deciding_bound(bound);
  };
  EXPECT_EQ(named(&LowerBound::work), "work");
  EXPECT_EQ(named(&LowerBound::longest), "longest");
  EXPECT_EQ(named(&LowerBound::in_turn), "in turn");
  EXPECT_EQ(named(&LowerBound::crowded), "crowded");
  EXPECT_EQ(named(&LowerBound::spread), "spread");
  EXPECT_EQ(named(&LowerBound::memory), "memory");
  EXPECT_EQ(named(&LowerBound::priced), "priced");
}

TEST(Explain, EverySequenceOfRandomPlansIsExplainedWithAllItsTokens) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomPlanOptions options;
    options.seed = seed;
    options.num_ranks = 1 + static_cast<std::int32_t>(seed % 8);
    options.capacity = Tokens(64);
    options.sequences =
        random_sequences(seed, static_cast<std::int32_t>(seed % 13), 64 * options.num_ranks);
    const StepPlan plan = random_plan(options);
    const ClusterSpec cluster = uniform_cluster(options.num_ranks, 3);
    for (const SequenceSpec& sequence : plan.sequences) {
      const SequenceExplanation about = explain(plan, hand_cost(), cluster, sequence.id);
      Tokens sum;
      for (const ExplainedPart& part : about.parts) {
        sum += part.tokens;
        EXPECT_LE(part.free_at, about.slot.start);
      }
      EXPECT_EQ(sum, sequence.tokens);
      EXPECT_GE(about.degree, about.least_degree);
      EXPECT_GE(about.num_nodes, about.least_nodes);
      EXPECT_LE(about.bound_without.work, about.bound.work);
      EXPECT_LT(about.slot.start, about.slot.end);
      for (const AloneTime& time : about.alone) {
        EXPECT_LE(time.exposed, time.exchange);
        EXPECT_NEAR(
            static_cast<double>((time.attention + time.linear + time.fixed + time.exposed).value()),
            static_cast<double>(time.total.value()), 4);
      }
    }
  }
}

}  // namespace
}  // namespace weft
