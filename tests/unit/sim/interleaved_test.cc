// Virtual stages: interleaved 1F1B against hand-counted steps and against a simulation that is
// written apart from the engine, scans everything again at every moment, and knows no queue.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "cost/micro_batch_time.h"
#include "cost/reference_cost.h"
#include "plan/evaluate.h"
#include "plan/pipeline_time.h"
#include "plan/planner.h"
#include "plan/ring_shares.h"
#include "plan/slot_order.h"
#include "sim/step_simulator.h"
#include "tests/support/random_plan.h"
#include "tests/unit/sim/pass_scan.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CostModel plain_cost(std::int32_t layers, double backward_ratio) {
  CostModel cost;
  cost.num_layers = layers;
  cost.linear_ns_per_token = 1;
  cost.backward_ratio = backward_ratio;
  return cost;
}

// Micro-batches of one sequence each, on one rank.
StepPlan single_pipeline(std::int32_t stages, const CostModel& cost, std::int32_t count,
                         std::int64_t tokens) {
  PlanRequest request;
  for (std::int32_t i = 0; i < count; ++i)
    request.sequences.push_back({.id = i, .tokens = Tokens(tokens), .num_targets = tokens - 1});
  request.cluster = uniform_cluster(1, 1);
  request.cluster.pipeline_stages = stages;
  request.cost = cost;
  request.options = {.strategy = "hdp-naive", .capacity = Tokens(tokens), .max_context = {}};
  return make_plan(request);
}

Timeline simulated(StepPlan plan, const CostModel& cost, std::int32_t virtual_stages,
                   const MemorySpec& memory = {}, std::vector<double> speed = {}) {
  plan.virtual_stages = virtual_stages;
  ClusterSpec cluster = uniform_cluster(plan.num_ranks, 4);
  cluster.virtual_stages = virtual_stages;
  cluster.pipeline_stages = plan.pipeline_stages;
  cluster.speed = std::move(speed);
  SimulationInput input;
  input.plan = &plan;
  input.cost = &cost;
  input.cluster = &cluster;
  input.memory = memory;
  return simulate_step(input);
}

bool is_compute(const TimelineEvent& event) {
  return event.activity == Activity::kForward || event.activity == Activity::kBackward;
}

// When each pass ran, by its members' events; they must all begin and end together.
std::map<PassName, Span> passes_of(const Timeline& timeline) {
  std::map<PassName, Span> passes;
  for (std::size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    if (!is_compute(event)) continue;  // what follows it in its pass has no direction
    Span span{.start = event.start.value(), .end = event.end.value()};
    for (std::size_t j = i + 1; j < timeline.events.size(); ++j) {
      const TimelineEvent& more = timeline.events[j];
      if (is_compute(more) ||
          std::pair(more.rank, more.stage) != std::pair(event.rank, event.stage))
        break;
      span.end = more.end.value();
    }
    const PassName name{event.slot_idx, event.chunk * timeline.pipeline_stages + event.stage,
                        event.activity == Activity::kForward};
    const auto [it, is_new] = passes.emplace(name, span);
    EXPECT_EQ(it->second, span) << "a member of slot " << event.slot_idx << " ran at another time";
  }
  return passes;
}

TEST(VirtualStages, TwoMicroBatchesOverTwoStagesOfTwoChunksRunAsDrawnByHand) {
  const CostModel cost = plain_cost(4, 1);
  const Timeline timeline = simulated(single_pipeline(2, cost, 2, 100), cost, 2);
  // A pass takes 100 ns. Device 0 does a0 b0 a1 b1, waits, and goes back through chunk 1, chunk 0:
  //   device 0   a0 b0 a1 b1 .  A1 B1 .  A0 B0
  //   device 1   .  a0 b0 a1 A1 b1 B1 A0 B0 .
  const std::map<PassName, Span> passes = passes_of(timeline);
  const std::map<PassName, std::int64_t> starts{
      {{0, 0, true}, 0},    {{1, 0, true}, 100},  {{0, 2, true}, 200},  {{1, 2, true}, 300},
      {{0, 1, true}, 100},  {{1, 1, true}, 200},  {{0, 3, true}, 300},  {{1, 3, true}, 500},
      {{0, 3, false}, 400}, {{1, 3, false}, 600}, {{0, 2, false}, 500}, {{1, 2, false}, 700},
      {{0, 1, false}, 700}, {{1, 1, false}, 800}, {{0, 0, false}, 800}, {{1, 0, false}, 900}};
  ASSERT_EQ(passes.size(), starts.size());
  for (const auto& [name, start] : starts) {
    EXPECT_EQ(passes.at(name), (Span{start, start + 100}))
        << "micro-batch " << std::get<0>(name) << ", virtual stage " << std::get<1>(name);
  }
  EXPECT_EQ(timeline.step_time, 1000_ns);
  EXPECT_EQ(timeline.virtual_stages, 2);
  EXPECT_NEAR(timeline.split.pipeline_bubble, 0.2, 1e-12);
}

TEST(VirtualStages, TheBubbleOfEqualMicroBatchesShrinksByTheirNumber) {
  for (const std::int32_t p : {2, 3, 4, 5}) {
    for (const std::int32_t chunks : {1, 2, 3, 4}) {
      for (const std::int32_t rounds : {1, 2, 3}) {
        for (const double ratio : {1.0, 2.0, 2.5, 0.5}) {
          const std::int32_t m = p * rounds;
          const CostModel cost = plain_cost(p * chunks * 2, ratio);
          const Timeline timeline = simulated(single_pipeline(p, cost, m, 1000), cost, chunks);
          const double pass = 2 * 1000 * (1 + ratio);  // forward and backward of a chunk
          EXPECT_EQ(timeline.step_time.value(),
                    static_cast<std::int64_t>(pass * (m * chunks + p - 1)))
              << p << " stages, " << chunks << " chunks, " << m << " micro-batches, " << ratio;
          const double bubble = static_cast<double>(p - 1) / (chunks * m);
          EXPECT_NEAR(timeline.split.pipeline_bubble / timeline.split.compute, bubble, 1e-9);
          EXPECT_EQ(timeline.split.data_parallel_bubble, 0);
        }
      }
    }
  }
}

TEST(VirtualStages, ADeviceHoldsTheWarmUpAndOnePassMore) {
  for (const std::int32_t p : {2, 4}) {
    for (const std::int32_t chunks : {2, 3}) {
      const CostModel cost = plain_cost(p * chunks, 2);
      const StepPlan plan = single_pipeline(p, cost, 4 * p, 1000);
      const double pass_bytes = 1000.0 / (p * chunks);
      const MemorySpec memory{.state_bytes = 7, .token_bytes = 1, .logits_token_bytes = 0};
      EXPECT_DOUBLE_EQ(simulated(plan, cost, chunks, memory).peak_bytes.front(),
                       7 + pass_bytes * ((chunks + 1) * p - 1))
          << "the first device: (p - 1) * 2 + (V - 1) * p + 1 passes of a chunk";
      const MemorySpec logits{.state_bytes = 0, .token_bytes = 1, .logits_token_bytes = 100};
      EXPECT_DOUBLE_EQ(simulated(plan, cost, chunks, logits).peak_bytes.front(),
                       pass_bytes * ((chunks - 1) * p + 1) + 100 * 1000)
          << "the last device, with the logits of its last chunk";
    }
  }
}

TEST(VirtualStages, CountsThatAreNoMultipleOfTheStagesRunAndLoseLessThanABlock) {
  for (const std::int32_t p : {2, 3, 4}) {
    for (const std::int32_t chunks : {2, 3, 4}) {
      const CostModel cost = plain_cost(p * chunks, 2);
      const auto step = [&](std::int32_t m, std::int32_t v) {
        return simulated(single_pipeline(p, cost, m, 1000), cost, v).step_time;
      };
      for (std::int32_t m = 1; m <= 3 * p; ++m) {
        EXPECT_LE(step(m, chunks), step((m + p - 1) / p * p, chunks))
            << "as if the block were full";
        EXPECT_LE(step(m, chunks), step(m, 1)) << m << " micro-batches, " << p << " stages";
      }
    }
  }
}

TEST(VirtualStages, UnequalSharedMicroBatchesRunAsASimulationWrittenApartSays) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto ranks = static_cast<std::int32_t>(1 + seed % 5);
    const auto p = static_cast<std::int32_t>(2 + seed % 3);
    const auto chunks = static_cast<std::int32_t>(2 + seed / 3 % 3);
    CostModel cost = reference_cost_7b();
    cost.num_layers = p * chunks * 2;
    StepPlan plan = random_plan({.num_ranks = ranks,
                                 .sequences = random_sequences(seed, 18, 30'000),
                                 .seed = seed,
                                 .num_layers = cost.num_layers});
    plan.pipeline_stages = p;
    ClusterSpec cluster = uniform_cluster(ranks, 4);
    cluster.pipeline_stages = p;
    const RandomStream random(seed, "speeds");
    for (std::int32_t r = 0; r < ranks; ++r)
      cluster.speed.push_back(seed % 2 == 0 ? 1
                                            : 0.5 + random.uniform(static_cast<std::uint64_t>(r)));
    const MemorySpec memory{.state_bytes = 0, .token_bytes = 1, .logits_token_bytes = 0};
    const Timeline timeline = simulated(plan, cost, chunks, memory, cluster.speed);
    const std::map<PassName, Span> expected = Scan(plan, cost, cluster, chunks).run();
    EXPECT_EQ(passes_of(timeline), expected);
    std::int64_t end = 0;
    for (const auto& [name, span] : expected) end = std::max(end, span.end);
    EXPECT_EQ(timeline.step_time.value(), end);
    plan.virtual_stages = cluster.virtual_stages = chunks;
    EXPECT_EQ(evaluate(plan, cost, cluster).makespan.value(), end);
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      std::int64_t most = 0;
      for (const MicroBatch& m : plan.ranks[r]) most = std::max(most, m.tokens().value());
      EXPECT_LE(timeline.peak_bytes[r],
                static_cast<double>(most) * ((chunks + 1) * p - 1) / (p * chunks) + 1e-6);
    }
  }
}

TEST(VirtualStages, RunAsThePlannerSaysPassByPass) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const auto ranks = static_cast<std::int32_t>(1 + seed % 6);
    const CostModel cost = reference_cost_7b();
    StepPlan plan = random_plan({.num_ranks = ranks,
                                 .sequences = random_sequences(seed, 25, 30'000),
                                 .seed = seed,
                                 .num_layers = cost.num_layers});
    plan.pipeline_stages = static_cast<std::int32_t>(2 + seed % 4);
    plan.virtual_stages = static_cast<std::int32_t>(1 + seed / 4 % 4);
    if (cost.num_layers % (plan.pipeline_stages * plan.virtual_stages) != 0)
      plan.virtual_stages = 1;
    ClusterSpec cluster = uniform_cluster(ranks, 4);
    std::vector<double> layer_ns(static_cast<std::size_t>(plan.num_slots));
    const RingShares rings(plan, cluster);
    std::vector<RingShare> shares;
    for (const auto& list : plan.ranks) {
      for (const MicroBatch& m : list) {
        rings.collect(m, shares);
        double& slowest = layer_ns[static_cast<std::size_t>(m.slot_idx)];
        slowest = std::max(slowest, layer_forward_time_ns(cost, shares, 1.0));
      }
    }
    const SlotOrder order = order_slots(plan);
    std::map<PassName, Span> expected;
    run_pipelines({.plan = &plan, .layer_ns = layer_ns, .slot_order = order.slots}, cost,
                  [&](const PipelinePass& pass) {
                    expected[{pass.slot_idx, pass.chunk * plan.pipeline_stages + pass.stage,
                              !pass.is_backward}] = {pass.start.value(), pass.end.value()};
                  });
    EXPECT_EQ(passes_of(simulated(plan, cost, plan.virtual_stages)), expected);
  }
}

TEST(VirtualStages, WhatCannotBeCutSoIsRefused) {
  const auto error = [](std::int32_t stages, std::int32_t virtual_stages) -> std::string {
    const CostModel cost = plain_cost(12, 1);
    try {
      simulated(single_pipeline(stages, cost, 2, 10), cost, virtual_stages);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error(2, 0), HasSubstr("virtual_stages is 0, expected at least 1"));
  EXPECT_THAT(error(2, 4), AllOf(HasSubstr("2 pipeline stages of 4 virtual stages"),
                                 HasSubstr("the 12 layers"), HasSubstr("one of 1, 2, 3, 6")));
  EXPECT_THAT(error(5, 2), AllOf(HasSubstr("12 layers"), HasSubstr("not a multiple of 5 pipeline"),
                                 HasSubstr("leave out --virtual-stages")));
  EXPECT_THAT(error(1, 2), HasSubstr("2 virtual stages without a pipeline"));
  EXPECT_EQ(error(4, 3), "no error");
}

}  // namespace
}  // namespace weft
