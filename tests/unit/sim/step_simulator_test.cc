#include "sim/step_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "cost/micro_batch_time.h"
#include "cost/reference_cost.h"
#include "plan/evaluate.h"
#include "plan/planner.h"
#include "plan/ring_shares.h"
#include "tests/support/random_plan.h"

namespace weft {
namespace {

ClusterSpec cluster_of(std::int32_t ranks, std::int32_t stages = 1) {
  ClusterSpec cluster = uniform_cluster(ranks, 4);
  cluster.pipeline_stages = stages;
  return cluster;
}

CostModel cost_with_offload() {
  CostModel cost = reference_cost_7b();
  cost.activation_bytes_per_token = 65536;
  cost.offload_bytes_per_second = 13e9;
  return cost;
}

SimulationInput input_of(const StepPlan& plan, const CostModel& cost, const ClusterSpec& cluster) {
  SimulationInput input;
  input.plan = &plan;
  input.cost = &cost;
  input.cluster = &cluster;
  return input;
}

StepPlan planned(const std::string& strategy, const ClusterSpec& cluster, const CostModel& cost,
                 std::vector<std::int64_t> lengths, Tokens capacity, bool offload = false) {
  PlanRequest request;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    request.sequences.push_back({.id = static_cast<std::int64_t>(i),
                                 .tokens = Tokens(lengths[i]),
                                 .num_targets = lengths[i] - 1});
  }
  request.cluster = cluster;
  request.cost = cost;
  request.options = {
      .strategy = strategy, .capacity = capacity, .max_context = {}, .offload = offload};
  return make_plan(request);
}

std::vector<std::int64_t> mixed_lengths(std::uint64_t seed, int count, std::int64_t longest) {
  const RandomStream random(seed, "lengths");
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    lengths.push_back(1 + static_cast<std::int64_t>(static_cast<double>(longest) * u * u * u));
  }
  return lengths;
}

// Sums of the split, which is in shares, must be one; and no device does two things at once.
void expect_sound(const Timeline& timeline) {
  const IdleSplit& split = timeline.split;
  EXPECT_NEAR(split.compute + split.exposed_exchange + split.exposed_offload +
                  split.data_parallel_bubble + split.pipeline_bubble + split.reduction +
                  split.optimizer,
              1, 1e-9);
  for (std::size_t i = 1; i < timeline.events.size(); ++i) {
    const TimelineEvent& a = timeline.events[i - 1];
    const TimelineEvent& b = timeline.events[i];
    ASSERT_TRUE(std::pair(a.rank, a.stage) < std::pair(b.rank, b.stage) ||
                (a.rank == b.rank && a.stage == b.stage && a.end <= b.start))
        << "event " << i;
  }
}

TEST(SimulateStep, WithoutContentionTheStepIsTheMakespanOfEvaluateForEveryStrategyAndStages) {
  CostModel cost = reference_cost_7b();
  cost.ring_step_ns_per_token = 20.7;
  cost.ring_step_fixed_ns = 3e4;
  for (const std::string& strategy : strategy_names()) {
    for (const std::int32_t stages : {1, 2, 3, 5}) {
      for (const std::int32_t ranks : {1, 3, 8}) {
        const ClusterSpec cluster = cluster_of(ranks, stages);
        const StepPlan plan =
            planned(strategy, cluster, cost,
                    mixed_lengths(static_cast<std::uint64_t>(ranks), 60, ranks * 4096), 4096_tok);
        const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
        EXPECT_EQ(timeline.step_time, evaluate(plan, cost, cluster).makespan)
            << strategy << ", " << stages << " stages, " << ranks << " ranks";
        expect_sound(timeline);
      }
    }
  }
}

TEST(SimulateStep, BackwardMayCountTheMessagesThatTheTrainerSends) {
  CostModel cost = reference_cost_7b();
  cost.num_layers = 2;
  cost.attention_ns_per_pair = cost.fixed_ns = 0;
  cost.linear_ns_per_token = 10;
  cost.hop_ns_per_token = 3;
  cost.hop_fixed_ns = 5;
  cost.backward_ratio = 2;
  const ClusterSpec cluster = cluster_of(3);
  // 12 tokens over 3 ranks, 4 each: a hop takes 17 ns, the rest of a layer 40 forward, 80 backward.
  const StepPlan plan = planned("hdp-naive", cluster, cost, {12}, 4_tok);
  SimulationInput input = input_of(plan, cost, cluster);
  EXPECT_EQ(simulate_step(input).step_time, Nanoseconds(2 * 3 * (40 + 2 * 17)));
  input.links.has_backward_messages = true;
  Timeline timeline = simulate_step(input);
  EXPECT_EQ(timeline.step_time, Nanoseconds(2 * (40 + 2 * 17 + 80 + 5 * 17)));
  EXPECT_NEAR(timeline.split.exposed_exchange, 7 * 17.0 / (120 + 7 * 17), 1e-9);
  expect_sound(timeline);
  // Work that hides all hops but the last: 26 pairs a rank.
  cost.attention_ns_per_pair = 1000;
  timeline = simulate_step(input);
  EXPECT_EQ(timeline.step_time, Nanoseconds(2 * (3 * (40 + 26'000) + 17)));
  expect_sound(timeline);
}

TEST(SimulateStep, AgreesWithEvaluateOnPlansThatNoPlannerWouldMake) {
  const CostModel cost = cost_with_offload();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto ranks = static_cast<std::int32_t>(1 + seed % 7);
    const StepPlan plan = random_plan({.num_ranks = ranks,
                                       .sequences = random_sequences(seed, 20, 30'000),
                                       .seed = seed,
                                       .allow_offload = true,
                                       .num_layers = cost.num_layers});
    ClusterSpec cluster = cluster_of(ranks);
    const RandomStream random(seed, "speeds");
    for (std::int32_t r = 0; r < ranks; ++r)
      cluster.speed.push_back(0.5 + random.uniform(static_cast<std::uint64_t>(r)));
    const Evaluation evaluation = evaluate(plan, cost, cluster);
    const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
    EXPECT_EQ(timeline.step_time, evaluation.makespan);
    expect_sound(timeline);
    std::vector<Nanoseconds> finish(static_cast<std::size_t>(ranks));
    for (const TimelineEvent& event : timeline.events)
      finish[static_cast<std::size_t>(event.rank)] = event.end;
    for (std::size_t r = 0; r < finish.size(); ++r)
      EXPECT_EQ(finish[r], evaluation.ranks[r].finish) << "rank " << r;
  }
}

TEST(SimulateStep, AMicroBatchAloneLastsAsMicroBatchTimeSays) {
  const CostModel cost = reference_cost_7b();
  const ClusterSpec cluster = cluster_of(5);
  const StepPlan plan = planned("hdp-naive", cluster, cost, {20'000}, 4096_tok);
  ASSERT_EQ(plan.groups.front().ranks.size(), 5u);
  const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
  std::vector<RingShare> shares;
  Nanoseconds slowest;
  for (const auto& list : plan.ranks) {
    RingShares(plan).collect(list.front(), shares);
    slowest = std::max(slowest, micro_batch_time(cost, shares, 1.0));
  }
  EXPECT_EQ(timeline.step_time, slowest);
}

TEST(SimulateStep, TheIdleSplitIsThatOfHandCountedSteps) {
  CostModel cost;
  cost.num_layers = 1;
  cost.linear_ns_per_token = 10;
  cost.backward_ratio = 1;
  const ClusterSpec cluster = cluster_of(2);
  // One rank computes 300 tokens, the other 100: 6000 ns and 2000 ns.
  const StepPlan plan = planned("hdp-naive", cluster, cost, {300, 100}, 300_tok);
  const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
  EXPECT_EQ(timeline.step_time, 6000_ns);
  EXPECT_NEAR(timeline.split.compute, 8000.0 / 12000, 1e-12);
  EXPECT_NEAR(timeline.split.data_parallel_bubble, 4000.0 / 12000, 1e-12);
  ASSERT_EQ(timeline.events.size(), 4u);
  EXPECT_EQ(timeline.events[1].activity, Activity::kBackward);
  EXPECT_EQ(timeline.events[1].start, 3000_ns);
}

TEST(SimulateStep, ThePipelineBubbleOfEqualMicroBatchesIsThatOf1F1B) {
  CostModel cost;
  cost.num_layers = 4;
  cost.linear_ns_per_token = 1;
  cost.backward_ratio = 2;
  const ClusterSpec cluster = cluster_of(1, 4);
  const StepPlan plan =
      planned("hdp-naive", cluster, cost, std::vector<std::int64_t>(8, 1000), 1000_tok);
  const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
  EXPECT_EQ(timeline.step_time, Nanoseconds(3000 * (8 + 4 - 1)));
  EXPECT_NEAR(timeline.split.pipeline_bubble, 3.0 / 11, 1e-12);
  EXPECT_EQ(timeline.split.data_parallel_bubble, 0);
}

TEST(SimulateStep, TheFirstStageHoldsAsManyMicroBatchesAsThereAreStages) {
  CostModel cost;
  cost.num_layers = 4;
  cost.linear_ns_per_token = 1;
  const ClusterSpec cluster = cluster_of(1, 4);
  const StepPlan plan =
      planned("hdp-naive", cluster, cost, std::vector<std::int64_t>(8, 1000), 1000_tok);
  SimulationInput input = input_of(plan, cost, cluster);
  input.memory = {.state_bytes = 7, .token_bytes = 4, .logits_token_bytes = 0};
  EXPECT_EQ(simulate_step(input).peak_bytes, std::vector<double>{7 + 4.0 * 1000})
      << "4 micro-batches of a quarter of the layers";
  input.memory.logits_token_bytes = 100;
  EXPECT_EQ(simulate_step(input).peak_bytes, std::vector<double>{7 + 1000 + 100 * 1000})
      << "the last stage, with the logits of its one micro-batch";
}

TEST(SimulateStep, OffloadedTokensDoNotCountAsResident) {
  const CostModel cost = cost_with_offload();
  const ClusterSpec cluster = cluster_of(4);
  const StepPlan plan = planned("hdp", cluster, cost, {90'000}, 16'384_tok, true);
  SimulationInput input = input_of(plan, cost, cluster);
  input.memory.token_bytes = 1;
  const Timeline timeline = simulate_step(input);
  for (const double bytes : timeline.peak_bytes) EXPECT_LE(bytes, 16'384 + 1e-6);
  EXPECT_GT(timeline.bytes.host_copies, 0);
}

TEST(SimulateStep, ExchangeBytesAreThoseThatRingsCountForEachOfTheirLinks) {
  const CostModel cost = reference_cost_7b();
  ClusterSpec cluster = cluster_of(3);
  cluster.ranks_per_node = 2;
  const StepPlan plan = planned("hdp-naive", cluster, cost, {9'000}, 3'000_tok);
  ASSERT_EQ(plan.groups.size(), 1u);
  const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
  // Of S = 9000 tokens forward (D - 1) S in all, backward (2 D - 1) S; one of three links is
  // inside.
  const double layer_bytes = 4096.0 * 32;
  EXPECT_DOUBLE_EQ(timeline.bytes.node_exchange + timeline.bytes.nic_exchange,
                   (2 + 5) * 9000 * layer_bytes);
  EXPECT_NEAR(timeline.bytes.node_exchange / timeline.bytes.nic_exchange, 0.5, 0.001);
}

TEST(SimulateStep, RingsInsideANodeHopOverItsLinks) {
  CostModel cost = reference_cost_7b();
  cost.hop_ns_per_token *= 100;  // far from hidden
  const ClusterSpec cluster = cluster_of(4);
  const StepPlan plan = planned("hdp-naive", cluster, cost, {16'000}, 4'000_tok);
  SimulationInput input = input_of(plan, cost, cluster);
  const Timeline slow = simulate_step(input);
  EXPECT_GT(slow.split.exposed_exchange, 0.5);
  CostModel with_links = cost;
  with_links.node_hop_ns_per_token = with_links.node_hop_fixed_ns = 0;
  input.cost = &with_links;
  const Timeline fast = simulate_step(input);
  EXPECT_LT(fast.split.exposed_exchange, 1e-6);
  ClusterSpec spread = cluster;
  spread.ranks_per_node = 1;
  input.cluster = &spread;
  EXPECT_EQ(simulate_step(input).step_time, slow.step_time) << "no ring is inside a node";
}

TEST(SimulateStep, AgreesWithEvaluateWhereHopsInsideNodesAreCheaper) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    CostModel cost = cost_with_offload();
    cost.hop_ns_per_token *= seed % 3 == 0 ? 20 : 2;
    cost.node_hop_ns_per_token = cost.hop_ns_per_token / static_cast<double>(1 + seed % 5);
    if (seed % 2 == 0) cost.node_hop_fixed_ns = 0;
    const auto ranks = static_cast<std::int32_t>(2 + seed % 7);
    ClusterSpec cluster = cluster_of(ranks, seed % 4 == 3 ? 2 : 1);
    cluster.ranks_per_node = static_cast<std::int32_t>(1 + seed % 4);
    const StepPlan random = random_plan({.num_ranks = ranks,
                                         .sequences = random_sequences(seed, 20, 30'000),
                                         .seed = seed,
                                         .num_layers = cost.num_layers});
    if (cluster.pipeline_stages == 1) {
      EXPECT_EQ(simulate_step(input_of(random, cost, cluster)).step_time,
                evaluate(random, cost, cluster).makespan);
    }
    for (const char* strategy : {"static", "hdp"}) {
      const StepPlan plan =
          planned(strategy, cluster, cost, mixed_lengths(seed, 40, ranks * 4096), 4096_tok);
      EXPECT_EQ(simulate_step(input_of(plan, cost, cluster)).step_time, plan.makespan) << strategy;
    }
  }
}

// Two groups of two ranks, on nodes 0-1 each, of two ranks: both leave both nodes.
struct CrossedRings {
  CrossedRings() {
    cost = reference_cost_7b();
    cost.attention_ns_per_pair = 0;
    cost.hop_ns_per_token *= 10;
    cluster = cluster_of(4);
    cluster.ranks_per_node = 2;
    plan = planned("hdp-naive", cluster, cost, {8'000, 8'000}, 4'000_tok);
    for (Group& group : plan.groups) {  // rings 0-2 and 1-3 instead of 0-1 and 2-3
      group.ranks = {Rank(group.slot_idx), Rank(group.slot_idx + 2)};
    }
    std::swap(plan.ranks[1], plan.ranks[2]);
    cluster_alone = cluster;
  }
  CostModel cost;
  ClusterSpec cluster;
  ClusterSpec cluster_alone;
  StepPlan plan;
};

TEST(SimulateStep, RingsThatLeaveANodeTogetherShareItsNics) {
  const CrossedRings rings;
  SimulationInput input = input_of(rings.plan, rings.cost, rings.cluster);
  const Timeline apart = simulate_step(input);
  input.links.full_speed_rings = 2;
  EXPECT_EQ(simulate_step(input).step_time, apart.step_time) << "two at a time are no more";
  input.links.full_speed_rings = 1;
  const Timeline shared = simulate_step(input);
  // Each weighs the share of a layer in which it sends; together they exceed one.
  const double exchange = apart.split.exposed_exchange;
  const double slower = 2 * exchange;
  EXPECT_GT(exchange, 0.5);
  const double expected = (1 - exchange) + exchange * slower;
  EXPECT_NEAR(ratio(shared.step_time, apart.step_time), expected, 0.001);
}

TEST(SimulateStep, WhatARingStillHasToDoSpeedsUpWhenTheOtherHasEnded) {
  CrossedRings rings;
  // The second ring carries a shorter sequence: after its end the first is alone.
  for (auto& list : rings.plan.ranks) {
    for (MicroBatch& m : list) {
      if (m.slot_idx != 1) continue;
      for (Piece& piece : m.pieces) {
        piece.range.begin /= 4;
        piece.range.end /= 4;
      }
    }
  }
  rings.plan.sequences[1].tokens = 2'000_tok;
  SimulationInput input = input_of(rings.plan, rings.cost, rings.cluster);
  const Timeline apart = simulate_step(input);
  input.links.full_speed_rings = 1;
  const Timeline shared = simulate_step(input);
  EXPECT_GT(shared.step_time, apart.step_time);
  EXPECT_LT(ratio(shared.step_time, apart.step_time), 1.5) << "slowed for a part of it only";
}

TEST(SimulateStep, TheEndOfTheStepComesAfterTheLastRank) {
  const CostModel cost = reference_cost_7b();
  const ClusterSpec cluster = cluster_of(8);
  const StepPlan plan = planned("hdp", cluster, cost, mixed_lengths(3, 50, 20'000), 8'192_tok);
  SimulationInput input = input_of(plan, cost, cluster);
  input.end = {.gradient_bytes = 1e9,
               .weight_bytes = 5e8,
               .optimizer_bytes = 1e8,
               .memory_bytes_per_second = 1e12,
               .node_bytes_per_second = 1e11,
               .node_latency_ns = 1000,
               .nic_bytes_per_second = 1e10,
               .nic_latency_ns = 5000};
  const Timeline timeline = simulate_step(input);
  const StepEnd end = step_end(input.end, 8, 4);
  EXPECT_EQ(timeline.micro_batches_time, evaluate(plan, cost, cluster).makespan);
  EXPECT_EQ(timeline.step_time,
            timeline.micro_batches_time + end.reduce_scatter + end.optimizer + end.all_gather);
  EXPECT_DOUBLE_EQ(timeline.bytes.nic_reduction, 8 * end.nic_bytes);
  expect_sound(timeline);
}

TEST(SimulateStep, WithoutEventsEverythingElseIsTheSame) {
  const CostModel cost = reference_cost_7b();
  const ClusterSpec cluster = cluster_of(6, 2);
  const StepPlan plan = planned("hdp", cluster, cost, mixed_lengths(4, 40, 20'000), 4'096_tok);
  SimulationInput input = input_of(plan, cost, cluster);
  Timeline with = simulate_step(input);
  input.keep_events = false;
  const Timeline without = simulate_step(input);
  EXPECT_FALSE(with.events.empty());
  with.events.clear();
  EXPECT_EQ(with, without);
}

TEST(SimulateStep, AnEmptyPlanTakesNoTime) {
  const CostModel cost = reference_cost_7b();
  const ClusterSpec cluster = cluster_of(3);
  const StepPlan plan = planned("hdp", cluster, cost, {}, 4'096_tok);
  const Timeline timeline = simulate_step(input_of(plan, cost, cluster));
  EXPECT_EQ(timeline.step_time, 0_ns);
  EXPECT_EQ(timeline.peak_bytes.size(), 3u);
}

TEST(SimulateStep, AnotherClusterThanThePlansIsRefused) {
  const CostModel cost = reference_cost_7b();
  const ClusterSpec cluster = cluster_of(3);
  const StepPlan plan = planned("hdp", cluster, cost, {100}, 4'096_tok);
  EXPECT_THROW(simulate_step(input_of(plan, cost, cluster_of(4))), UserError);
  EXPECT_THROW(simulate_step(input_of(plan, cost, cluster_of(3, 2))), UserError);
}

}  // namespace
}  // namespace weft
