// The time of plans for ranks that are pipelines.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "plan/evaluate.h"
#include "plan/pipeline_time.h"
#include "plan/plan_builder.h"
#include "plan/slot_order.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/pipeline_cases.h"

namespace weft {
namespace {

using testing::hand_cost;
using ::testing::HasSubstr;
using testing::one_rank;
using testing::pipelines;
using testing::sequences_of;
using testing::token_cost;

std::vector<PipelinePass> passes_of(const StepPlan& plan, const CostModel& cost,
                                    const std::vector<double>& layer_ns) {
  const SlotOrder order = order_slots(plan);
  std::vector<PipelinePass> passes;
  run_pipelines({.plan = &plan, .layer_ns = layer_ns, .slot_order = order.slots}, cost,
                [&](const PipelinePass& pass) { passes.push_back(pass); });
  return passes;
}

TEST(PipelineTime, EqualMicroBatchesTakeTheirSumAndOneMoreForEveryFurtherStage) {
  for (std::int32_t stages = 1; stages <= 8; ++stages) {
    for (std::int64_t count = 1; count <= 12; ++count) {
      const CostModel cost = token_cost(10, stages);
      const StepPlan plan =
          one_rank(std::vector<std::int64_t>(static_cast<std::size_t>(count), 1), cost, stages);
      const Evaluation evaluation = evaluate(plan, cost, pipelines(1, stages));
      EXPECT_EQ(evaluation.makespan, Nanoseconds((count + stages - 1) * 30))
          << stages << " stages, " << count << " micro-batches";
      EXPECT_EQ(evaluation.ranks[0].busy, Nanoseconds(count * 30));
    }
  }
}

// Two stages of one layer; forward 10 a token, backward 20. Lengths 1, 3, 1:
//   stage 0  F0 0-10  F1 10-40                B0 40-60  F2 60-70             B1 130-190  B2 190-210
//   stage 1      F0 10-20  B0 20-40  F1 40-70  B1 70-130  F2 130-140  B2 140-160
TEST(PipelineTime, UnequalMicroBatchesAreAsDrawnByHand) {
  const CostModel cost = token_cost(10, 2);
  const StepPlan plan = one_rank({1, 3, 1}, cost, 2);
  const Evaluation evaluation = evaluate(plan, cost, pipelines(1, 2));
  EXPECT_EQ(evaluation.slots,
            (std::vector<SlotTime>{{0_ns, 60_ns}, {10_ns, 190_ns}, {60_ns, 210_ns}}));
  EXPECT_EQ(evaluation.makespan, 210_ns);
}

// Two stages hold micro-batches i and i + 1 at most. While the last one runs forward and backward
// of i, the first one runs backward of i - 1 and then forward of i + 1.
TEST(PipelineTime, TwoStagesRunForwardAndBackwardInTurns) {
  const CostModel cost = token_cost(10, 2);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomStream random(seed, "two stages");
    std::vector<std::int64_t> lengths(1 + random.below(0, 12));
    for (std::size_t i = 0; i < lengths.size(); ++i)
      lengths[i] = 1 + static_cast<std::int64_t>(random.below(1 + i, 40));
    std::int64_t end = 10 * lengths.front(), backward = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::int64_t next = i + 1 < lengths.size() ? 10 * lengths[i + 1] : 0;
      end += std::max(30 * lengths[i], std::exchange(backward, 20 * lengths[i]) + next);
    }
    end += backward;
    EXPECT_EQ(evaluate(one_rank(lengths, cost, 2), cost, pipelines(1, 2)).makespan,
              Nanoseconds(end))
        << "seed " << seed;
  }
}

// Rank 0: one token alone, then half of a shared sequence of 4; rank 1: the other half, then one
// token. Two stages.
//   rank 0  stage 0  a 0-10   g 10-30   A 40-60  G 110-150      rank 1  g 10-30  b 30-40  G 110-150
//   B 150-170
//           stage 1  a 10-20  A 20-40   g 40-60  G 60-100 ...
TEST(PipelineTime, AGroupRunsItsPassesTogetherInEveryStage) {
  const CostModel cost = token_cost(10, 2);
  StepPlan plan;
  plan.num_ranks = 2;
  plan.num_layers = plan.pipeline_stages = 2;
  plan.capacity = Tokens(8);
  plan.sequences = sequences_of({4, 1, 1});
  PlanBuilder builder(plan);
  builder.open_slot();
  builder.add_whole(1, Rank(0));
  builder.open_slot();
  builder.add_shared(0, std::vector<Rank>{Rank(0), Rank(1)});
  builder.open_slot();
  builder.add_whole(2, Rank(1));
  const std::vector<PipelinePass> passes = passes_of(plan, cost, {10, 20, 10});
  std::map<std::tuple<int, int, bool>, std::int64_t> starts;
  for (const PipelinePass& pass : passes)
    starts[{pass.slot_idx, pass.stage, pass.is_backward}] = pass.start.value();
  EXPECT_EQ((starts[{0, 0, false}]), 0);
  EXPECT_EQ((starts[{1, 0, false}]), 10) << "with rank 0, which has the token first";
  EXPECT_EQ((starts[{2, 0, false}]), 30);
  EXPECT_EQ((starts[{0, 1, true}]), 20);
  EXPECT_EQ((starts[{1, 1, false}]), 40);
  EXPECT_EQ((starts[{1, 1, true}]), 60);
  EXPECT_EQ((starts[{1, 0, true}]), 100);
  EXPECT_EQ(evaluate(plan, cost, pipelines(2, 2)).slots[1], (SlotTime{10_ns, 140_ns}));
}

TEST(PipelineTime, OneStageIsTheTimeOfSlotsInTurn) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const StepPlan plan = random_plan({.num_ranks = static_cast<std::int32_t>(1 + seed % 7),
                                       .sequences = random_sequences(seed, 15, 60),
                                       .capacity = Tokens(64),
                                       .seed = seed,
                                       .num_layers = 1});
    CostModel cost = token_cost(16, 1);  // whole numbers: nothing is rounded
    const Evaluation evaluation = evaluate(plan, cost, uniform_cluster(plan.num_ranks, 2));
    std::vector<double> layer_ns;
    for (const SlotTime& slot : evaluation.slots)
      layer_ns.push_back(static_cast<double>((slot.end - slot.start).value()) / 3);
    for (const PipelinePass& pass : passes_of(plan, cost, layer_ns)) {
      const SlotTime& slot = evaluation.slots[static_cast<std::size_t>(pass.slot_idx)];
      if (pass.is_backward) {
        EXPECT_EQ(pass.end, slot.end) << "seed " << seed;
      } else {
        EXPECT_EQ(pass.start, slot.start) << "seed " << seed;
      }
    }
  }
}

// What every executor relies on, for any valid plan.
TEST(PipelineTime, PassesKeepTheirOrderTheirDevicesAndTheMemoryOfEveryStage) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto stages = static_cast<std::int32_t>(1 + seed % 8);
    StepPlan plan = random_plan({.num_ranks = static_cast<std::int32_t>(1 + seed % 7),
                                 .sequences = random_sequences(seed, 20, 60),
                                 .capacity = Tokens(64),
                                 .seed = seed,
                                 .num_layers = stages + static_cast<std::int32_t>(seed % 3)});
    plan.pipeline_stages = stages;
    validate(plan);
    CostModel cost = hand_cost();
    cost.num_layers = plan.num_layers;
    cost.backward_ratio = static_cast<double>(seed % 4);
    std::vector<double> layer_ns;
    const RandomStream random(seed, "slot times");
    for (std::int32_t s = 0; s < plan.num_slots; ++s)
      layer_ns.push_back(
          static_cast<double>(1 + random.below(static_cast<std::uint64_t>(s), 1000)));
    const std::vector<PipelinePass> passes = passes_of(plan, cost, layer_ns);
    ASSERT_EQ(passes.size(), 2U * static_cast<std::size_t>(stages * plan.num_slots));
    std::map<std::tuple<int, int, bool>, PipelinePass> of;
    for (const PipelinePass& pass : passes)
      of[{pass.slot_idx, pass.stage, pass.is_backward}] = pass;
    for (std::int32_t s = 0; s < plan.num_slots; ++s) {
      for (std::int32_t k = 0; k < stages; ++k) {
        if (k > 0) {
          EXPECT_GE((of[{s, k, false}].start), (of[{s, k - 1, false}].end));
          EXPECT_GE((of[{s, k - 1, true}].start), (of[{s, k, true}].end));
        }
        EXPECT_GE((of[{s, k, true}].start), (of[{s, k, false}].end));
      }
    }
    for (const auto& list : plan.ranks) {
      for (std::int32_t k = 0; k < stages; ++k) {
        std::vector<PipelinePass> own;
        for (const MicroBatch& m : list) {
          own.push_back(of[{m.slot_idx, k, false}]);
          own.push_back(of[{m.slot_idx, k, true}]);
        }
        std::stable_sort(own.begin(), own.end(), [](const auto& a, const auto& b) {
          return std::tuple(a.start, a.end) < std::tuple(b.start, b.end);
        });
        int in_flight = 0;
        std::size_t next_forward = 0;
        std::size_t next_backward = 0;
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (i > 0) {
            EXPECT_GE(own[i].start, own[i - 1].end) << "one device, one pass";
          }
          if (cost.backward_ratio == 0) continue;  // passes of no length have no order in time
          in_flight += own[i].is_backward ? -1 : 1;
          EXPECT_LE(in_flight, stages - k);
          std::size_t& next = own[i].is_backward ? next_backward : next_forward;
          EXPECT_EQ(own[i].slot_idx, list[next++].slot_idx);
        }
      }
    }
  }
}

TEST(PipelineTime, AnotherNumberOfStagesThanThePlanHasIsRefused) {
  const CostModel cost = token_cost(10, 2);
  const StepPlan plan = one_rank({1}, cost, 2);
  try {
    evaluate(plan, cost, pipelines(1, 1));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pipelines of 2 stages, the cluster has 1"));
  }
  EXPECT_THROW(evaluate(plan, token_cost(10, 1), pipelines(1, 2)), UserError);
  StepPlan deep = plan;
  deep.pipeline_stages = 3;
  try {
    validate(deep);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad header: pipeline_stages is 3, expected 1 to 2"));
  }
}

TEST(PipelineTime, VirtualStagesThatDoNotFitAreRefused) {
  const CostModel cost = token_cost(10, 4);
  StepPlan plan = one_rank({1, 1}, cost, 2);
  plan.virtual_stages = 2;
  ClusterSpec cluster = pipelines(1, 2);
  const auto refusal = [&](const auto& action) -> std::string {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(refusal([&] { evaluate(plan, cost, cluster); }),
              HasSubstr("2 virtual stages a device, the cluster has 1"));
  cluster.virtual_stages = 2;
  // f f f f of 10, then b b b b of 20, for each of 2 chunks on 2 devices: one micro-batch alone
  // needs as long as without chunks, the second half a stage more at either end.
  const Nanoseconds interleaved = evaluate(plan, cost, cluster).makespan;
  plan.virtual_stages = cluster.virtual_stages = 1;
  EXPECT_LT(interleaved, evaluate(plan, cost, cluster).makespan);
  for (const std::int32_t bad : {0, -1, 3, 4}) {
    plan.virtual_stages = bad;
    EXPECT_THAT(refusal([&] { validate(plan); }),
                HasSubstr(fmt::format("bad header: virtual_stages is {}, expected 1", bad)));
  }
  plan.virtual_stages = 2;
  plan.pipeline_stages = 1;
  EXPECT_THAT(refusal([&] { validate(plan); }), HasSubstr("virtual_stages is 2, expected 1"));
  cluster = uniform_cluster(1, 1);
  cluster.virtual_stages = 2;
  EXPECT_THAT(refusal([&] { validate(cluster); }), HasSubstr("virtual stages without a pipeline"));
}

}  // namespace
}  // namespace weft
