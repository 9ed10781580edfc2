#include "plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/error.h"
#include "plan/evaluate.h"
#include "plan/hdp_search.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"
#include "tests/unit/plan/length_mixes.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using ::testing::AllOf;
using testing::edge_sequences;
using ::testing::HasSubstr;
using testing::kStrategies;
using testing::request_of;
using testing::sequences_of;

std::string refusal(const PlanRequest& request) {
  try {
    make_plan(request);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::int32_t degree_of(const StepPlan& plan, std::int64_t id) {
  for (const Group& group : plan.groups) {
    if (plan.sequences[static_cast<std::size_t>(group.sequence_idx)].id == id) {
      return static_cast<std::int32_t>(group.ranks.size());
    }
  }
  return 1;
}

std::size_t num_micro_batches(const StepPlan& plan) {
  std::size_t count = 0;
  for (const auto& micro_batches : plan.ranks) count += micro_batches.size();
  return count;
}

TEST(Planner, TheSameSetInAnyOrderGivesTheSameBytes) {
  for (const std::string& strategy : kStrategies) {
    for (const std::int32_t num_ranks : {1, 3, 8}) {
      std::vector<SequenceSpec> sequences =
          testing::draw_lengths(testing::kGithubShares, Tokens(200'000), Tokens(16'384), 7);
      sequences.push_back({.id = 100'001, .tokens = Tokens(500), .num_targets = 3});
      sequences.push_back({.id = 100'000, .tokens = Tokens(500), .num_targets = 5});
      PlanRequest request = request_of(strategy, sequences, num_ranks, 16'384);
      const Hash128 hash = plan_hash(make_plan(request));
      std::reverse(request.sequences.begin(), request.sequences.end());
      EXPECT_EQ(plan_hash(make_plan(request)), hash) << strategy << " reversed";
      const Permutation shuffle(3, "shuffle", sequences.size());
      for (std::size_t i = 0; i < sequences.size(); ++i)
        request.sequences[i] = sequences[shuffle(i)];
      EXPECT_EQ(plan_hash(make_plan(request)), hash) << strategy << " shuffled";
      request.options.seed = 1;
      EXPECT_NE(plan_hash(make_plan(request)), hash);
    }
  }
}

TEST(Planner, AnEmptySetGivesALegalEmptyPlan) {
  for (const std::string& strategy : kStrategies) {
    const StepPlan plan = make_plan(request_of(strategy, {}, 3, 8));
    EXPECT_NO_THROW(validate(plan));
    EXPECT_EQ(plan.num_slots, 0);
    EXPECT_EQ(plan.makespan, Nanoseconds(0));
    EXPECT_EQ(plan.gap(), 0);
  }
}

// C032: longer than all ranks' capacity together.
TEST(Planner, ASequenceThatCannotFitIsRefusedWithTheSmallestNumberOfRanksThatWould) {
  for (const std::string& strategy : kStrategies) {
    EXPECT_THAT(refusal(request_of(strategy, sequences_of({10, 4097}), 4, 1024)),
                AllOf(HasSubstr("sequence 1"), HasSubstr("4097"), HasSubstr("1024"),
                      HasSubstr("at least 5 ranks")));
    EXPECT_EQ(refusal(request_of(strategy, sequences_of({10, 4096}), 4, 1024)), "no error");
  }
}

TEST(Planner, RefusesWhatIsNotAStep) {
  EXPECT_THAT(refusal(request_of("hdpp", sequences_of({1}), 1, 8)),
              AllOf(HasSubstr("'hdpp'"), HasSubstr("did you mean 'hdp'?"),
                    HasSubstr("static, sorted, pow2, hdp-naive, hdp-algorithm2, hdp")));
  EXPECT_THAT(refusal(request_of("hdp", sequences_of({1}), 1, 0)), HasSubstr("capacity is 0"));
  EXPECT_THAT(refusal(request_of("hdp", sequences_of({0}), 1, 8)), HasSubstr("0 tokens"));
  std::vector<SequenceSpec> twice = sequences_of({3, 4});
  twice[1].id = 0;
  EXPECT_THAT(refusal(request_of("hdp", twice, 1, 8)), HasSubstr("id 0"));
  std::vector<SequenceSpec> targets = sequences_of({3});
  targets[0].num_targets = 4;
  EXPECT_THAT(refusal(request_of("hdp", targets, 1, 8)), HasSubstr("4 targets"));
  PlanRequest threads = request_of("hdp", sequences_of({9}), 4, 8);
  for (const int num_threads : {0, -1, 1025}) {
    threads.options.num_threads = num_threads;
    EXPECT_THAT(refusal(threads), HasSubstr(fmt::format("{} threads", num_threads)));
  }
  PlanRequest context = request_of("static", sequences_of({9}), 4, 8);
  context.options.max_context = Tokens(8);
  EXPECT_THAT(refusal(context), HasSubstr("configured context of 8"));
  context.options.max_context = Tokens(64);
  EXPECT_THAT(refusal(context), HasSubstr("at least 8 ranks"));
}

// K10: the paper's redundancy example at a capacity of 8K.
TEST(Planner, NaiveTakesTheRanksThatThePaperNames) {
  const std::int64_t k = 1024;
  const StepPlan plan = make_plan(
      request_of("hdp-naive", sequences_of({1024 * k, 768 * k, 16 * k, 8 * k}), 128, 8 * k));
  EXPECT_EQ(degree_of(plan, 0), 128);
  EXPECT_EQ(degree_of(plan, 1), 96);
  EXPECT_EQ(degree_of(plan, 2), 2);
  EXPECT_EQ(degree_of(plan, 3), 1);
}

TEST(Planner, NaiveGivesEachItemTheNextRanksInTurn) {
  const StepPlan plan = make_plan(request_of("hdp-naive", sequences_of({20, 12, 5, 3, 8}), 4, 8));
  EXPECT_EQ(plan.groups[0].ranks, (std::vector{Rank(0), Rank(1), Rank(2)}));
  EXPECT_EQ(plan.groups[1].ranks, (std::vector{Rank(3), Rank(0)}));
  // Packs (8) and (5, 3) follow on ranks 1 and 2.
  EXPECT_EQ(plan.ranks[1].back().tokens(), Tokens(8));
  EXPECT_EQ(plan.ranks[2].back().pieces.size(), 2u);
  EXPECT_EQ(plan.ranks[3].size(), 1u);
}

TEST(Planner, StaticSharesEverySequenceOverTheConfiguredContext) {
  // 6 ranks, capacity 8, context 20: degree 3 (the least divisor of 6 with 3 * 8 >= 20), two data
  // groups.
  PlanRequest request = request_of("static", sequences_of({20, 9, 5, 2, 1}), 6, 8);
  request.options.max_context = Tokens(20);
  const StepPlan plan = make_plan(request);
  EXPECT_EQ(degree_of(plan, 0), 3);
  EXPECT_EQ(degree_of(plan, 1), 3);
  EXPECT_EQ(degree_of(plan, 2), 3);
  EXPECT_EQ(degree_of(plan, 3), 1);  // two tokens cannot feed three ranks
  EXPECT_EQ(degree_of(plan, 4), 1);
  EXPECT_EQ(plan.num_slots, 2);
  EXPECT_EQ(plan.ranks[0].size(), 1u);
  EXPECT_EQ(plan.ranks[3].size(), 1u);       // the second bin goes to the second data group
  request.options.max_context = Tokens(25);  // 4 does not divide 6
  EXPECT_EQ(degree_of(make_plan(request), 0), 6);
}

// What people run: the tokens of a bin are cut over one ring, which pays its hops once.
TEST(Planner, StaticRunsABinAsOneRingWithTheShortestSequencesSpreadOverIt) {
  std::vector<std::int64_t> lengths(30, 64);
  lengths.insert(lengths.end(), 60, 5);  // fewer tokens than the 8 ranks
  PlanRequest request = request_of("static", sequences_of(lengths), 8, 512);
  request.options.max_context = Tokens(4096);
  request.cost = testing::hand_cost();
  request.cost.attention_ns_per_pair = 0;  // nothing hides the hops
  const StepPlan plan = make_plan(request);
  EXPECT_EQ(plan.num_slots, 1);
  EXPECT_EQ(plan.groups.size(), 30u);
  for (const Group& group : plan.groups) EXPECT_EQ(group.ranks, plan.groups[0].ranks);
  for (const auto& micro_batches : plan.ranks) {
    EXPECT_GE(micro_batches[0].tokens(), Tokens(240 + 7 * 5));
    EXPECT_LE(micro_batches[0].tokens(), Tokens(240 + 8 * 5));
  }
  // 30 x 8 tokens of the ring and 8 x 5 whole ones on the fullest rank; 7 hops, each once for all
  // 240.
  EXPECT_EQ(plan.makespan, Nanoseconds(7 + 10 * (240 + 40) + 7 * (5 + 3 * 240)));
}

TEST(Planner, StaticSharesASequenceShorterThanTheRingThatNoRankHolds) {
  PlanRequest request = request_of("static", sequences_of({16, 5, 1}), 8, 2);
  const StepPlan plan = make_plan(request);
  EXPECT_EQ(degree_of(plan, 0), 8);
  EXPECT_EQ(degree_of(plan, 1), 5);
  EXPECT_EQ(degree_of(plan, 2), 1);
}

// C031: ceil(total / capacity) bins would be 7, one of them with two sequences.
TEST(Planner, NoMicroBatchIsEverOverTheCapacity) {
  for (const char* strategy : {"static", "hdp-naive"}) {
    const StepPlan plan =
        make_plan(request_of(strategy, sequences_of(std::vector<std::int64_t>(8, 7)), 1, 8));
    EXPECT_EQ(num_micro_batches(plan), 8u) << strategy;
  }
  EXPECT_EQ(num_micro_batches(
                make_plan(request_of("hdp", sequences_of(std::vector<std::int64_t>(8, 7)), 1, 8))),
            8u);
}

// C041: the budget holds for every micro-batch although one sequence is far above it.
TEST(Planner, AnOverBudgetSequenceIsSharedAndNothingIsDropped) {
  std::vector<std::int64_t> lengths(200, 700);
  lengths.push_back(65'536);
  for (const std::string& strategy : kStrategies) {
    const StepPlan plan = make_plan(request_of(strategy, sequences_of(lengths), 8, 8192));
    EXPECT_EQ(degree_of(plan, 200), 8) << strategy;
    for (const auto& micro_batches : plan.ranks) {
      for (const MicroBatch& micro_batch : micro_batches)
        EXPECT_LE(micro_batch.tokens(), Tokens(8192));
    }
  }
}

// C034: group sizes and world sizes that are not powers of two.
TEST(Planner, AnyNumberOfRanksIsUsedInFull) {
  std::vector<std::int64_t> lengths(20, 100);
  lengths.insert(lengths.begin(), 6000);
  for (const std::string& strategy : kStrategies) {
    EXPECT_EQ(degree_of(make_plan(request_of(strategy, sequences_of(lengths), 6, 1024)), 0), 6)
        << strategy;
    const std::int32_t of_seven =
        degree_of(make_plan(request_of(strategy, sequences_of(lengths), 7, 1024)), 0);
    EXPECT_TRUE(of_seven == 6 || of_seven == 7) << strategy;
    EXPECT_THAT(refusal(request_of(strategy, sequences_of(lengths), 5, 1024)),
                HasSubstr("at least 6 ranks"));
    EXPECT_THAT(refusal(request_of(strategy, sequences_of(lengths), 3, 1024)),
                HasSubstr("at least 6 ranks"));
  }
}

// C035: odd groups next to each other in one step.
TEST(Planner, GroupsOfFiveAndThreeRunSideBySide) {
  const StepPlan plan =
      make_plan(request_of("hdp", sequences_of({5 * 8192, 3 * 8192 - 100}), 8, 8192));
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.groups[0].ranks, (std::vector{Rank(0), Rank(1), Rank(2), Rank(3), Rank(4)}));
  EXPECT_EQ(plan.groups[1].ranks, (std::vector{Rank(5), Rank(6), Rank(7)}));
}

// C037: equal tokens are not equal work.
TEST(Planner, HdpBalancesTimeNotTokens) {
  std::vector<std::int64_t> lengths{8192};
  lengths.insert(lengths.end(), 8, 1024);
  lengths.insert(lengths.end(), 32, 256);
  const PlanRequest request = request_of("hdp", sequences_of(lengths), 4, 8192);
  const Evaluation result = evaluate(make_plan(request), request.cost, request.cluster);
  EXPECT_LE(result.imbalance, 1.10);
}

// C038: one outlier must not make the short sequences pay.
TEST(Planner, NoSequenceThatFitsOnOneRankIsSharedBecauseOfAnOutlier) {
  const RandomStream random(5, "C038");
  std::vector<std::int64_t> lengths{131'072};
  for (std::uint64_t i = 0; i < 2000; ++i)
    lengths.push_back(1 + static_cast<std::int64_t>(random.below(i, 8192)));
  const StepPlan hdp = make_plan(request_of("hdp", sequences_of(lengths), 8, 16'384));
  ASSERT_EQ(hdp.groups.size(), 1u);
  EXPECT_EQ(hdp.groups[0].ranks.size(), 8u);
  EXPECT_LT(hdp.makespan,
            make_plan(request_of("static", sequences_of(lengths), 8, 16'384)).makespan);
  EXPECT_LT(hdp.gap(), 0.01);
}

TEST(Planner, EdgesOfLengthsAndRanksGiveValidPlansAndHdpIsTheFastest) {
  double log_naive = 0;
  double log_static = 0;
  int slower = 0;
  int cases = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto num_ranks = static_cast<std::int32_t>(1 + seed % 8);
    const RandomStream random(seed, "planner sweep");
    constexpr std::array<std::int64_t, 4> kCapacities{2, 9, 1000, 8192};
    const std::int64_t capacity = kCapacities[random.below(1000, 4)];
    const auto sequences = edge_sequences(random, num_ranks, capacity, seed % 3 == 0 ? 40 : 10);
    if (sequences.empty()) continue;
    std::array<Nanoseconds, 3> makespans;
    for (std::size_t s = 0; s < kStrategies.size(); ++s) {
      const StepPlan plan = make_plan(request_of(kStrategies[s], sequences, num_ranks, capacity));
      ASSERT_NO_THROW(validate(plan)) << "seed " << seed << ' ' << kStrategies[s];
      ASSERT_LE(plan.lower_bound, plan.makespan) << "seed " << seed << ' ' << kStrategies[s];
      makespans[s] = plan.makespan;
    }
    log_static += std::log(ratio(makespans[0], makespans[2]));
    log_naive += std::log(ratio(makespans[1], makespans[2]));
    slower += makespans[2] > equal_makespan(std::min(makespans[0], makespans[1])) ? 1 : 0;
    ++cases;
  }
  std::cout << "hdp slower in " << slower << " of " << cases << "; speed-up over static "
            << std::exp(log_static / cases) << ", over naive " << std::exp(log_naive / cases)
            << " (geometric mean)\n";
  EXPECT_EQ(slower, 0);
  EXPECT_GT(log_static / cases, std::log(1.1));
  EXPECT_GT(log_naive / cases, std::log(1.1));
}

TEST(Planner, SlowRanksGetLess) {
  PlanRequest request = request_of(
      "hdp", testing::draw_lengths(testing::kGithubShares, Tokens(400'000), Tokens(8192), 3), 4,
      8192);
  request.cluster.speed = {1, 1, 1, 0.5};
  const Evaluation result = evaluate(make_plan(request), request.cost, request.cluster);
  EXPECT_LT(ratio(result.ranks[3].tokens, result.ranks[0].tokens), 0.6);
  EXPECT_LT(result.idle_share, 0.03);
}

TEST(Planner, AMixOn128RanksIsWithinAFewPercentOfTheBound) {
  for (const auto& [name, shares] :
       {std::pair("github", testing::kGithubShares), std::pair("byted", testing::kBytedShares)}) {
    const StepPlan plan = make_plan(request_of(
        "hdp", testing::draw_lengths(shares, Tokens(8 << 20), Tokens(256 << 10), 1), 128, 8192));
    EXPECT_LT(plan.gap(), 0.03) << name;
  }
}

}  // namespace
}  // namespace weft
