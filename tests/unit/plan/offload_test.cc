#include "plan/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/evaluate.h"
#include "plan/explain.h"
#include "plan/lower_bound.h"
#include "plan/plan_builder.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::hand_cost;
using ::testing::HasSubstr;
using testing::request_of;
using testing::sequences_of;

CostModel reference_with_offload() {
  CostModel cost = reference_cost_7b();
  cost.activation_bytes_per_token = 65536;
  cost.offload_bytes_per_second = 13e9;
  return cost;
}

PlanRequest offload_request(const std::vector<std::int64_t>& lengths, std::int32_t num_ranks) {
  PlanRequest request = request_of("hdp", sequences_of(lengths), num_ranks, 8192);
  request.cost = reference_with_offload();
  request.options.offload = true;
  return request;
}

// ByteScale Eq. 3: two layers stay, so 32 layers hold 16 times the tokens and 10 layers 5 times.
TEST(Offload, ARankHoldsHalfAsManyTimesTheTokensAsItHasLayers) {
  EXPECT_EQ(most_offloaded(8192_tok, 32), 131072_tok);
  EXPECT_EQ(most_offloaded(8192_tok, 10), 40960_tok);
  EXPECT_EQ(most_offloaded(7_tok, 3), 10_tok);
  for (const std::int32_t layers : {1, 2}) EXPECT_EQ(most_offloaded(8192_tok, layers), 8192_tok);
  EXPECT_EQ(least_offload_ratio(131072_tok, 8192_tok, 32), 1);
  EXPECT_GT(least_offload_ratio(131073_tok, 8192_tok, 32), 1);
}

TEST(Offload, TheLeastRatioIsTheLeastThatValidateAccepts) {
  EXPECT_EQ(least_offload_ratio(8192_tok, 8192_tok, 32), 0);
  // Twice the capacity on 4 layers: 2 layers' worth may stay, which are the two that always do.
  EXPECT_EQ(least_offload_ratio(16_tok, 8_tok, 4), 1);
  // 12 tokens: 8 / 12 * 4 = 2.67 layers, so 2 and a third of the other two.
  EXPECT_NEAR(least_offload_ratio(12_tok, 8_tok, 4), 2.0 / 3, 1.0 / 4096);
  EXPECT_GT(least_offload_ratio(9_tok, 8_tok, 2), 1) << "nothing to offload";
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomStream random(seed, "least ratio");
    const Tokens capacity(static_cast<std::int64_t>(1 + random.below(0, 9000)));
    const auto layers = static_cast<std::int32_t>(3 + random.below(1, 60));
    const Tokens most = most_offloaded(capacity, layers);
    const Tokens tokens(
        static_cast<std::int64_t>(1 + random.below(2, static_cast<std::uint64_t>(most.value()))));
    const double ratio = least_offload_ratio(tokens, capacity, layers);
    ASSERT_LE(ratio, 1) << "seed " << seed;
    const auto held = static_cast<double>(capacity.value());
    EXPECT_LE(resident_tokens(tokens, ratio, layers), held) << "seed " << seed;
    if (ratio > 0) {
      EXPECT_GT(resident_tokens(tokens, ratio - 1.0 / 4096, layers), held) << "seed " << seed;
    }
  }
}

// Fig. 21: half is free at 64K tokens, all at 256K.
TEST(Offload, LongSequencesHideMoreOfTheirCopies) {
  const CostModel cost = reference_with_offload();
  EXPECT_NEAR(hidden_offload_ratio(cost, Tokens(64 << 10)), 0.5, 0.01);
  EXPECT_EQ(hidden_offload_ratio(cost, Tokens(256 << 10)), 1);
  EXPECT_EQ(least_degree_with_offload(cost, Tokens(2 << 20), 8192_tok), 16) << "instead of 256";
  EXPECT_EQ(least_degree_with_offload(cost, 8192_tok, 8192_tok), 1);
  // 9000 tokens need 0.096 and hide 0.27; 16384 need 0.533 and hide 0.30.
  EXPECT_EQ(least_degree_with_offload(cost, 9000_tok, 8192_tok), 1);
  EXPECT_EQ(least_degree_with_offload(cost, 16384_tok, 8192_tok), 2);
  CostModel small_host = cost;
  small_host.host_bytes_per_rank = 30.0 * 65536 * 8192;  // a full capacity of 30 layers
  EXPECT_EQ(least_degree_with_offload(small_host, Tokens(2 << 20), 8192_tok), 133);
  CostModel backward = cost;
  backward.backward_ratio = 0.1;
  EXPECT_NEAR(hidden_offload_ratio(backward, Tokens(64 << 10)), 0.05, 0.001);
}

// One rank, 4 layers, 16 tokens of capacity 8 at ratio 1. A layer takes 2 * 136 + 10 * 16 + 7 = 439
// forward and twice that backward.
TEST(Offload, CopiesThatComputeDoesNotHideAreCharged) {
  CostModel cost = hand_cost();
  cost.num_layers = 4;
  cost.backward_ratio = 2;
  StepPlan plan;
  plan.capacity = Tokens(8);
  plan.num_layers = 4;
  plan.sequences = sequences_of({16});
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(0, Rank(0));
  EXPECT_THROW(validate(plan), UserError);
  set_offload_ratios(plan);
  validate(plan);
  EXPECT_EQ(plan.ranks[0][0].offload_ratio, 1);
  const auto makespan = [&](double bytes_per_second) {
    cost.activation_bytes_per_token = 100;
    cost.offload_bytes_per_second = bytes_per_second;
    return evaluate(plan, cost, uniform_cluster(1, 1));
  };
  constexpr std::int64_t kComputed = 4 * 3 * 439;
  // 1600 bytes: 400 ns, 500 ns and 1000 ns, in two of four layers.
  EXPECT_EQ(makespan(4e9).makespan, Nanoseconds(kComputed));
  EXPECT_EQ(makespan(4e9).exposed_copies, 0_ns);
  EXPECT_EQ(makespan(3.2e9).makespan, Nanoseconds(kComputed + 2 * (500 - 439)));
  EXPECT_EQ(makespan(1.6e9).makespan,
            Nanoseconds(kComputed + 2 * (1000 - 439) + 2 * (1000 - 2 * 439)));
  const Evaluation slow = makespan(1.6e9);
  EXPECT_EQ(slow.exposed_copies, Nanoseconds(2 * (1000 - 439) + 2 * (1000 - 2 * 439)));
  EXPECT_EQ(slow.offloaded_micro_batches, 1);
  EXPECT_EQ(slow.max_offload_ratio, 1);
  EXPECT_EQ(slow.ranks[0].busy, slow.makespan);
}

TEST(Offload, SequencesTakeFewerRanksAndTheStepIsNotSlower) {
  std::vector<std::int64_t> lengths;
  const RandomStream random(3, "offload plan");
  for (std::uint64_t i = 0; i < 1200; ++i) {
    std::int64_t most = 96 << 10;
    for (std::uint64_t halvings = random.below(2 * i, 10); halvings > 0; --halvings) most /= 2;
    lengths.push_back(
        1 + static_cast<std::int64_t>(random.below(2 * i + 1, static_cast<std::uint64_t>(most))));
  }
  PlanRequest request = offload_request(lengths, 32);
  const StepPlan plan = make_plan(request);
  const Evaluation with = evaluate(plan, request.cost, request.cluster);
  request.options.offload = false;
  const StepPlan flat = make_plan(request);
  const Evaluation without = evaluate(flat, request.cost, request.cluster);
  EXPECT_LE(with.makespan.value(), without.makespan.value() * 1.004);
  EXPECT_LT(with.exchange_tokens.value(), without.exchange_tokens.value() * 3 / 4);
  EXPECT_GT(with.offloaded_micro_batches, 0);
  EXPECT_EQ(without.offloaded_micro_batches, 0);
  EXPECT_LE(seconds(with.exposed_copies), 1e-3) << "copies are hidden";
  EXPECT_LE(plan.lower_bound, flat.lower_bound) << "a larger plan space";
  request.options.offload = true;
  std::reverse(request.sequences.begin(), request.sequences.end());
  EXPECT_EQ(plan_hash(make_plan(request)), plan_hash(plan));
}

TEST(Offload, ASequenceLongerThanAllCapacitiesTogetherCanBePlanned) {
  // 128K tokens on 8 ranks of 8K: no plan without offload.
  PlanRequest request = offload_request({128 << 10, 500, 100}, 8);
  const StepPlan plan = make_plan(request);
  const SequenceExplanation about = explain_sequence(
      plan, evaluate(plan, request.cost, request.cluster), request.cost, request.cluster, 0);
  EXPECT_EQ(about.least_degree, 16);
  EXPECT_LE(about.degree, 8);
  EXPECT_GT(about.offload_ratio, 0.5);
  EXPECT_THAT(about.why_degree, HasSubstr("wait in host memory"));
  request.options.offload = false;
  EXPECT_THROW(make_plan(request), UserError);
  request = offload_request({2 << 20}, 8);
  EXPECT_THROW(make_plan(request), UserError) << "more than 8 ranks hold with all offloaded";
}

TEST(Offload, TheBoundIsNeverAbovePlansThatOffload) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto num_ranks = static_cast<std::int32_t>(1 + seed % 8);
    CostModel cost = hand_cost();
    cost.num_layers = static_cast<std::int32_t>(1 + seed % 6);
    cost.activation_bytes_per_token = 1000;
    cost.offload_bytes_per_second = seed % 2 == 0 ? 1e12 : 1e9;
    const Tokens capacity(64);
    const Tokens most = most_offloaded(capacity, cost.num_layers);
    // Drawn with room for all that offload makes room for, then given the ratios it needs.
    StepPlan plan = random_plan({.num_ranks = num_ranks,
                                 .sequences = random_sequences(seed, 9, num_ranks * most.value()),
                                 .capacity = most,
                                 .seed = seed,
                                 .num_layers = cost.num_layers});
    plan.capacity = capacity;
    set_offload_ratios(plan);
    validate(plan);
    const ClusterSpec cluster = uniform_cluster(num_ranks, 2);
    ASSERT_LE(lower_bound(plan.sequences, cost, cluster, most).best(),
              evaluate(plan, cost, cluster).makespan);
    PlanRequest request = request_of("hdp", plan.sequences, num_ranks, capacity.value());
    request.cost = cost;
    request.options.offload = true;
    try {
      const StepPlan made = make_plan(request);  // validate refuses a bound above the makespan
      EXPECT_EQ(made.capacity, capacity);
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("with the offload that its compute hides"));
    }
  }
}

TEST(Offload, WhatCannotBePlannedWithItIsRefused) {
  const auto refusal = [](const PlanRequest& request) -> std::string {
    try {
      make_plan(request);
      return "accepted";
    } catch (const UserError& error) {
      return error.what();
    }
  };
  PlanRequest request = offload_request({20000, 100}, 4);
  EXPECT_EQ(refusal(request), "accepted");
  request.options.strategy = "static";
  EXPECT_THAT(refusal(request), HasSubstr("'static' does not offload"));
  request = offload_request({20000, 100}, 4);
  request.cost = reference_cost_7b();
  EXPECT_THAT(refusal(request), HasSubstr("activation_bytes_per_token"));
  request = offload_request({20000, 100}, 4);
  request.cluster.pipeline_stages = 2;
  EXPECT_THAT(refusal(request), HasSubstr("cannot be planned together"));
  request.cluster = uniform_cluster(4, 2);
  request.cluster.speed = {1, 1, 1, 0.5};
  EXPECT_THAT(refusal(request), HasSubstr("one speed and memory"));
  // Nothing to plan is a plan.
  EXPECT_EQ(refusal(offload_request({}, 4)), "accepted");
}

}  // namespace
}  // namespace weft
