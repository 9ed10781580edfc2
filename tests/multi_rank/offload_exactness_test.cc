// Bars of offload: whatever share of the activations waits in whatever tier, the loss and every
// gradient are those of a run that keeps them, bit for bit.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "memory/disk_tier.h"
#include "tests/support/offload_tiers.h"
#include "tests/support/random_plan.h"
#include "tests/support/sanitized.h"
#include "tests/support/step_on_ranks.h"

namespace weft {
namespace {

using testing::MemorySource;
using testing::RankedStep;
using testing::run_on_ranks;
using testing::source_of;
using testing::StepSetting;
using testing::tiny_config;

class OffloadRanksTest : public ::testing::TestWithParam<std::int32_t> {
  void SetUp() override {
    if (!testing::can_run_ranks(GetParam())) GTEST_SKIP() << "another number of ranks runs here";
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, OffloadRanksTest, ::testing::Values(1, 2, 3, 4, 7));

StepPlan with_ratio(StepPlan plan, double ratio) {
  for (auto& micro_batches : plan.ranks)
    for (MicroBatch& micro_batch : micro_batches) micro_batch.offload_ratio = ratio;
  return plan;
}

// Every number of layers and recompute mode; lengths of one token and up, both dtypes; copies that
// end late and out of order.
TEST_P(OffloadRanksTest, GradientsAreThoseOfARunThatKeepsEverythingBitForBit) {
  std::uint64_t seed = 3000 * static_cast<std::uint64_t>(GetParam());
  for (std::int64_t num_layers = 1; num_layers <= testing::unless_sanitized(5, 3); ++num_layers) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kAttention, Recompute::kFull}) {
      SCOPED_TRACE(fmt::format("seed {}, {} layers, recompute {}", ++seed, num_layers,
                               kRecomputeNames[static_cast<std::size_t>(recompute)]));
      const std::vector<SequenceSpec> specs = random_sequences(seed, 5, 30 * GetParam());
      const MemorySource source = source_of(specs, seed, 50);
      StepPlan plan = random_plan({.num_ranks = GetParam(),
                                   .sequences = specs,
                                   .capacity = Tokens(40),
                                   .seed = seed,
                                   .num_layers = static_cast<std::int32_t>(num_layers)});
      StepSetting setting{.config = tiny_config(seed % 2 == 0 ? 2 : 1, seed % 3 == 0),
                          .dtype = seed % 2 == 0 ? at::kDouble : at::kFloat,
                          .kernel = seed % 4 < 2 ? "reference" : "blocked",
                          .recompute = recompute};
      setting.config.num_layers = num_layers;
      const RankedStep kept = run_on_ranks(setting, plan, source);
      std::atomic<std::uint64_t> num_tiers = seed;
      setting.make_tier = [&] { return std::make_unique<testing::LateTier>(num_tiers++); };
      for (const double ratio : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        const RankedStep step = run_on_ranks(setting, with_ratio(plan, ratio), source);
        EXPECT_EQ(step.loss, kept.loss) << ratio;
        EXPECT_TRUE(at::equal(step.gradients, kept.gradients)) << ratio;
      }
    }
  }
}

// Cheap enough for MPI processes, too.
TEST_P(OffloadRanksTest, OnDiskTooInEveryRecomputeMode) {
  const auto folder = std::filesystem::current_path();
  int round = 0;
  for (const std::int64_t length : {1, 2, 3, 301}) {
    const MemorySource source =
        source_of({{.id = 0, .tokens = Tokens(length), .num_targets = length - 1}}, 9, 50);
    StepSetting setting{.config = tiny_config(2, true), .dtype = at::kFloat, .kernel = "blocked"};
    setting.config.num_layers = 5;
    setting.recompute = static_cast<Recompute>(round++ % 3);
    StepPlan plan = testing::shared_plan(source, GetParam());
    plan.num_layers = 5;
    const RankedStep kept = run_on_ranks(setting, plan, source);
    setting.make_tier = [&] { return std::make_unique<DiskTier>(folder); };
    for (const double ratio : {0.3, 1.0}) {
      const RankedStep step = run_on_ranks(setting, with_ratio(plan, ratio), source);
      EXPECT_EQ(step.loss, kept.loss) << length << " tokens, ratio " << ratio;
      EXPECT_TRUE(at::equal(step.gradients, kept.gradients)) << length << " tokens, " << ratio;
    }
  }
}

}  // namespace
}  // namespace weft
