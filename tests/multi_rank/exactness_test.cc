// Bars of exactness: any plan on any number of ranks gives the loss and the gradient of every
// parameter that one rank holding everything gives (the oracle: tests/support/dense_decoder.h).
//
// The tests of RanksTest and of lengths to 5,000 run on MPI processes, too (tests/mpi).
//
// WEFT_LONG_TESTS=1 in the environment runs ten times as many random plans.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "cost/reference_cost.h"
#include "plan/planner.h"
#include "tests/support/random_plan.h"
#include "tests/support/sanitized.h"
#include "tests/support/step_on_ranks.h"

namespace weft {
namespace {

using testing::dense_sequences;
using testing::dense_step;
using testing::DenseStep;
using testing::MemorySource;
using testing::placed_plan;
using testing::RankedStep;
using testing::run_on_ranks;
using testing::shared_plan;
using testing::source_of;
using testing::StepSetting;
using testing::tiny_config;
using testing::TinyModel;
using testing::unless_sanitized;

int num_rounds(int short_run) {
  return std::getenv("WEFT_LONG_TESTS") != nullptr ? 10 * short_run : short_run;
}

DenseStep reference_of(const ModelConfig& config, const MemorySource& source,
                       LossWeighting weighting) {
  const TinyModel model(config, at::kDouble);
  return dense_step(config, model.named_values(), dense_sequences(source, weighting));
}

// Runs the plan and compares it with what the oracle found.
RankedStep expect_step(const StepSetting& setting, const StepPlan& plan, const MemorySource& source,
                       const DenseStep& reference) {
  const RankedStep step = run_on_ranks(setting, plan, source);
  const double bound = testing::tolerance(setting.dtype);
  EXPECT_TRUE(std::isfinite(step.loss));
  EXPECT_LE(std::abs(step.loss - reference.loss), bound * std::abs(reference.loss));
  const double norm = testing::global_norm(reference.gradients);
  const ParameterSet parameters(setting.config, setting.dtype);
  for (const ParameterInfo& info : parameters.infos()) {
    const at::Tensor gradient = step.gradients.narrow(0, info.offset, info.size).view(info.shape);
    EXPECT_LE(testing::gradient_error(gradient, reference.gradients.at(info.name), norm), bound)
        << info.name;
  }
  return step;
}

RankedStep expect_exact(const StepSetting& setting, const StepPlan& plan,
                        const MemorySource& source) {
  return expect_step(setting, plan, source, reference_of(setting.config, source, plan.weighting));
}

// Walks through head counts, tied and untied heads, dtypes, kernels.
StepSetting setting_of(int round) {
  constexpr std::int64_t kKvHeads[] = {8, 2, 1};
  return {.config = tiny_config(kKvHeads[round % 3], round % 2 == 0),
          .dtype = round % 4 < 2 ? at::kDouble : at::kFloat,
          .kernel = round % 5 < 3 ? "reference" : "blocked"};
}

LossWeighting weighting_of(int round) {
  return round / 2 % 2 == 0 ? LossWeighting::kToken : LossWeighting::kSample;
}

// Lengths at every edge of `num_ranks` and `capacity`, and some between; all, some, one or none of
// the tokens of a sequence are targets.
std::vector<SequenceSpec> edge_sequences(std::int32_t num_ranks, std::int64_t capacity,
                                         std::uint64_t seed) {
  const std::int64_t edges[] = {1,
                                2,
                                num_ranks - 1,
                                num_ranks,
                                num_ranks + 1,
                                2 * num_ranks,
                                capacity - 1,
                                capacity,
                                capacity + 1,
                                num_ranks * capacity};
  const RandomStream stream(seed, "edges");
  std::vector<SequenceSpec> specs;
  for (std::uint64_t i = 0; i < 9; ++i) {
    const std::int64_t edge = edges[stream.below(2 * i, std::size(edges))];
    const auto largest =
        static_cast<std::uint64_t>(std::min<std::int64_t>(num_ranks * capacity, 200));
    const std::int64_t length =
        i % 3 == 2 ? 1 + static_cast<std::int64_t>(stream.below(2 * i + 1, largest)) : edge;
    if (length < 1 || length > num_ranks * capacity) continue;
    const std::int64_t targets[] = {length - 1, length - 1, length, length / 2, 1, 0};
    specs.push_back({.id = static_cast<std::int64_t>(i),
                     .tokens = Tokens(length),
                     .num_targets = targets[stream.below(100 + i, std::size(targets))]});
  }
  return specs;
}

PlanRequest request_of(const std::string& strategy, std::int32_t num_ranks, std::int64_t capacity,
                       std::vector<SequenceSpec> sequences) {
  PlanRequest request;
  request.sequences = std::move(sequences);
  request.cluster = uniform_cluster(num_ranks, num_ranks);
  request.cost = reference_cost_7b();
  request.options.strategy = strategy;
  request.options.capacity = Tokens(capacity);
  return request;
}

class RanksTest : public ::testing::TestWithParam<std::int32_t> {
  void SetUp() override {
    if (!testing::can_run_ranks(GetParam())) GTEST_SKIP() << "another number of ranks runs here";
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, RanksTest, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(RanksTest, RandomPlansEqualTheDenseReference) {
  for (int round = 0; round < num_rounds(unless_sanitized(16, 5)); ++round) {
    const auto seed = static_cast<std::uint64_t>(100 * GetParam() + round);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::vector<SequenceSpec> specs = edge_sequences(GetParam(), 48, seed);
    const StepPlan plan = random_plan({.num_ranks = GetParam(),
                                       .sequences = specs,
                                       .capacity = Tokens(48),
                                       .weighting = weighting_of(round),
                                       .seed = seed,
                                       .allow_unequal_cuts = round % 3 != 0});
    expect_exact(setting_of(round), plan, source_of(specs, seed, 50));
  }
}

TEST_P(RanksTest, EveryStrategyEqualsTheDenseReference) {
  for (const std::string& strategy : strategy_names()) {
    for (int round = 0; round < num_rounds(unless_sanitized(5, 2)); ++round) {
      const auto seed = static_cast<std::uint64_t>(1000 * GetParam() + round);
      SCOPED_TRACE(fmt::format("{} seed {}", strategy, seed));
      PlanRequest request =
          request_of(strategy, GetParam(), 40, edge_sequences(GetParam(), 40, seed));
      request.options.weighting = weighting_of(round);
      expect_exact(setting_of(round + GetParam()), make_plan(request),
                   source_of(request.sequences, seed, 50));
    }
  }
}

TEST_P(RanksTest, WhatBackwardComputesAgainChangesNoBitOfAnyGradient) {
  for (int round = 0; round < num_rounds(unless_sanitized(4, 2)); ++round) {
    const auto seed = static_cast<std::uint64_t>(2000 * GetParam() + round);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::vector<SequenceSpec> specs = edge_sequences(GetParam(), 40, seed);
    const StepPlan plan = random_plan({.num_ranks = GetParam(),
                                       .sequences = specs,
                                       .capacity = Tokens(40),
                                       .weighting = weighting_of(round),
                                       .seed = seed,
                                       .allow_unequal_cuts = true});
    const MemorySource source = source_of(specs, seed, 50);
    StepSetting setting = setting_of(round);
    const RankedStep kept = run_on_ranks(setting, plan, source);
    for (const Recompute recompute : {Recompute::kAttention, Recompute::kFull}) {
      setting.recompute = recompute;
      const RankedStep again = run_on_ranks(setting, plan, source);
      EXPECT_EQ(again.loss, kept.loss);
      EXPECT_TRUE(at::equal(again.gradients, kept.gradients)) << static_cast<int>(recompute);
    }
  }
}

TEST_P(RanksTest, C004GradientsDoNotScaleWithTheSizeOfTheGroup) {
  MemorySource source;
  source.add(0, MemorySource::random_document(1, 0, 256, 50));
  const StepSetting setting{.config = tiny_config(2, true), .dtype = at::kFloat};
  const RankedStep one = run_on_ranks(setting, shared_plan(source, 1), source);
  const RankedStep step = run_on_ranks(setting, shared_plan(source, GetParam()), source);
  const double ratio = step.gradients.norm().item<double>() / one.gradients.norm().item<double>();
  EXPECT_NEAR(ratio, 1, 1e-5);
}

// The oracle's dense scores of 5000 tokens are what this costs, so one reference serves every rank
// count, strategy and dtype of a model. The long run takes all head counts, tied and untied.
TEST(Exactness, LengthsToFiveThousandUnderEveryStrategyRankCountAndDtype) {
  constexpr std::int64_t kPart = unless_sanitized(1, 5);  // of the long lengths and capacities
  const std::int64_t third = 1700 / kPart;
  const std::int64_t lengths[] = {
      5000 / kPart, third + 1, third, third - 1, 14, 13, 8, 7, 6, 3, 2, 1};
  std::vector<SequenceSpec> specs;
  for (const std::int64_t length : lengths) {
    const auto id = static_cast<std::int64_t>(specs.size());
    specs.push_back({.id = id, .tokens = Tokens(length), .num_targets = length - 1});
  }
  const MemorySource source = source_of(specs, 5, 50);
  const std::map<std::int32_t, std::int64_t> capacity_of_ranks = {
      {1, 5000 / kPart}, {2, 2500 / kPart}, {3, third}, {4, third}, {7, third / 2}};
  for (int round = 0; round < (num_rounds(1) == 1 ? 1 : 6); ++round) {
    constexpr std::int64_t kKvHeads[] = {2, 8, 1};
    ModelConfig config = tiny_config(kKvHeads[round % 3], round < 3);
    config.num_layers = 1;
    const DenseStep reference = reference_of(config, source, LossWeighting::kToken);
    for (const auto& [num_ranks, capacity] : capacity_of_ranks) {
      if (!testing::can_run_ranks(num_ranks)) continue;
      for (const std::string& strategy : strategy_names()) {
        SCOPED_TRACE(
            fmt::format("{} kv heads, {} ranks, {}", config.num_kv_heads, num_ranks, strategy));
        const StepPlan plan = make_plan(request_of(strategy, num_ranks, capacity, specs));
        for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
          expect_step({.config = config, .dtype = dtype, .kernel = "blocked"}, plan, source,
                      reference);
        }
      }
    }
  }
}

TEST(Exactness, C001LossIsPerTokenOverRanksAndNotAMeanOfMeans) {
  MemorySource source;
  source.add(0, MemorySource::random_document(3, 0, 2, 50));
  source.add(1, MemorySource::random_document(3, 1, 4, 50));
  const StepSetting setting{.config = tiny_config(2, true)};
  const RankedStep step =
      expect_exact(setting, placed_plan(source, 2, LossWeighting::kToken, {{1}, {0}}), source);
  double sum = 0;
  for (const std::int64_t id : {0, 1}) {
    MemorySource alone;
    alone.add(id, source.at(id));
    sum += run_on_ranks(setting, shared_plan(alone, 1), alone).loss * (id == 0 ? 1 : 3);
  }
  EXPECT_NEAR(step.loss, sum / 4, 1e-12);
}

TEST(Exactness, C002AccumulationOverRanksAndMicroBatchesDoesNotScaleTheLoss) {
  MemorySource source;
  for (std::int64_t id = 0; id < 8; ++id) {
    source.add(id, MemorySource::random_document(4, id, 5 + 3 * id, 50));
  }
  const StepSetting setting{.config = tiny_config(2, true), .dtype = at::kFloat};
  const RankedStep one = run_on_ranks(setting, shared_plan(source, 1), source);
  for (const std::int64_t capacity : {26, 40, 60, 200}) {
    PlanRequest request = request_of("hdp-naive", 1, capacity, source.specs());
    const RankedStep step = run_on_ranks(setting, make_plan(request), source);
    EXPECT_NEAR(step.loss / one.loss, 1, 1e-6) << "capacity " << capacity;
    EXPECT_NEAR(step.gradients.norm().item<double>() / one.gradients.norm().item<double>(), 1,
                1e-6);
  }
}

TEST(Exactness, C005TargetsOnAllSomeOneOrNoRankOfAGroup) {
  // 32 tokens in 8 parts of 4: rank 0 holds the first and last part.
  for (const TokenRange kept :
       {TokenRange{0, 32}, TokenRange{0, 8}, TokenRange{0, 1}, TokenRange{13, 14}}) {
    MemorySource source;
    source.add(0, MemorySource::masked(MemorySource::random_document(6, 0, 32, 50), kept));
    SCOPED_TRACE(fmt::format("targets in {}", kept));
    expect_exact({.config = tiny_config(2, true)}, shared_plan(source, 4), source);
    expect_exact({.config = tiny_config(1, false), .dtype = at::kFloat}, shared_plan(source, 4),
                 source);
  }
}

TEST(Exactness, AStepWithoutTargetsHasZeroLossAndZeroGradients) {
  MemorySource source;
  source.add(0, MemorySource::masked(MemorySource::random_document(6, 0, 32, 50), {0, 0}));
  source.add(1, MemorySource::random_document(6, 1, 1, 50));
  const RankedStep step =
      run_on_ranks({.config = tiny_config(2, true)}, shared_plan(source, 4), source);
  EXPECT_EQ(step.loss, 0);
  EXPECT_EQ(step.gradients.abs().sum().item<double>(), 0);
}

TEST(Exactness, C008AndC019LengthsThatNoGroupDividesLoseNoToken) {
  MemorySource source;
  source.add(0, MemorySource::random_document(7, 0, 4, 50));
  source.add(1, MemorySource::random_document(7, 1, 3, 50));
  expect_exact({.config = tiny_config(2, true)}, shared_plan(source, 2), source);
  MemorySource uneven;
  uneven.add(0, MemorySource::random_document(7, 0, 299, 50));
  expect_exact({.config = tiny_config(2, true)}, shared_plan(uneven, 4), uneven);
}

TEST(Exactness, C011ATargetAcrossTheEdgeOfAShardCounts) {
  MemorySource source;
  source.add(0, MemorySource::document({1, 2, 3, 4, 5, 6, 7, 8}));
  StepPlan plan = shared_plan(source, 2);
  plan.ranks[0][0].pieces = {{.sequence_idx = 0, .group_idx = 0, .range = {0, 4}}};
  plan.ranks[1][0].pieces = {{.sequence_idx = 0, .group_idx = 0, .range = {4, 8}}};
  ASSERT_EQ(total_weight(plan.sequences, plan.weighting), 7);
  expect_exact({.config = tiny_config(2, true)}, plan, source);
}

TEST(Exactness, C013PackedSequencesOfAGroupDoNotAttendToEachOther) {
  MemorySource source;
  source.add(0, MemorySource::document({1, 2, 3}));
  source.add(1, MemorySource::document({4, 5, 6, 7, 8}));
  for (const std::int32_t num_ranks : {1, 2, 3}) {
    expect_exact({.config = tiny_config(2, true)}, shared_plan(source, num_ranks), source);
  }
}

TEST(Exactness, C028WeightingIsTheSameAlonePackedAndShared) {
  MemorySource source;
  source.add(0, MemorySource::random_document(8, 0, 2, 50));
  source.add(1, MemorySource::random_document(8, 1, 100, 50));
  const StepSetting setting{.config = tiny_config(2, true)};
  for (const LossWeighting weighting : {LossWeighting::kToken, LossWeighting::kSample}) {
    const RankedStep apart =
        expect_exact(setting, placed_plan(source, 2, weighting, {{0}, {1}}), source);
    const RankedStep packed = expect_exact(setting, shared_plan(source, 1, weighting), source);
    const RankedStep shared = expect_exact(setting, shared_plan(source, 2, weighting), source);
    EXPECT_NEAR(apart.loss, packed.loss, 1e-12);
    EXPECT_NEAR(apart.loss, shared.loss, 1e-12);
  }
}

TEST(Exactness, C109FewerKeyHeadsThanRanksOfTheGroup) {
  MemorySource source;
  source.add(0, MemorySource::random_document(9, 0, 61, 50));
  for (const std::int32_t num_ranks : {3, 4, 8}) {
    for (const std::int64_t num_kv_heads : {2, 1}) {
      expect_exact({.config = tiny_config(num_kv_heads, true)}, shared_plan(source, num_ranks),
                   source);
    }
  }
  ModelConfig wide = tiny_config(4, true);
  wide.num_heads = 28;
  expect_exact({.config = wide}, shared_plan(source, 8), source);
}

TEST(Exactness, ThreeSequencesOnEightRanksAndIdleRanks) {
  MemorySource source;
  for (std::int64_t id = 0; id < 3; ++id)
    source.add(id, MemorySource::random_document(10, id, 20 + id, 50));
  const StepSetting setting{.config = tiny_config(2, true)};
  expect_exact(setting, placed_plan(source, 8, LossWeighting::kToken, {{7}, {2}, {4}}), source);
  expect_exact(setting, placed_plan(source, 8, LossWeighting::kToken, {{6, 1, 3}, {5}, {3, 6}}),
               source);
  for (const std::string& strategy : strategy_names()) {
    PlanRequest request = request_of(strategy, 8, 64, source.specs());
    expect_exact(setting, make_plan(request), source);
  }
}

}  // namespace
}  // namespace weft
