// Training with plans that offload: the planner's own, whose long sequences take fewer ranks than
// hold them otherwise; and what happens when the tier fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/cpu_estimate.h"
#include "memory/recompute.h"
#include "plan/planner.h"
#include "tests/support/memory_source.h"
#include "tests/support/offload_tiers.h"
#include "train/step_loop.h"

namespace weft {
namespace {

using testing::MemorySource;

constexpr std::int32_t kRanks = 4;
constexpr std::int64_t kLayers = 6;
constexpr Tokens kCapacity(40);

ModelConfig model() {
  return {.vocab_size = 37,
          .hidden_size = 16,
          .num_layers = kLayers,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 4,
          .intermediate_size = 24,
          .tie_word_embeddings = true};
}

// Every step has a long sequence and some short ones.
class OffloadFeed final : public PlanFeed {
 public:
  OffloadFeed(MemorySource& source, bool offload) {
    for (std::int64_t id = 0; id < 6; ++id) {
      const std::int64_t length = id == 0 ? 4 * kCapacity.value() : 5 + 3 * id;
      source.add(id, MemorySource::random_document(3, id, length, 37));
    }
    request_.sequences = source.specs();
    request_.cluster = uniform_cluster(kRanks, kRanks);
    request_.cost = estimate_cpu_cost({.num_layers = kLayers,
                                       .hidden_size = 16,
                                       .query_size = 16,
                                       .kv_size = 8,
                                       .intermediate_size = 24,
                                       .vocab_size = 37});
    request_.options = {.strategy = "hdp", .capacity = kCapacity, .max_context = 4 * kCapacity};
    request_.options.offload = offload;
    request_.cost.activation_bytes_per_token = 4 * 200;
    request_.cost.offload_bytes_per_second = 1e15;
  }
  FedPlan next() override {
    StepPlan plan = make_plan(request_);
    for (const auto& micro_batches : plan.ranks)
      for (const MicroBatch& micro_batch : micro_batches)
        largest_ratio_ = std::max(largest_ratio_, micro_batch.offload_ratio);
    ++request_.options.step;
    return {std::move(plan), 0, {}};
  }
  double largest_ratio() const { return largest_ratio_; }

 private:
  PlanRequest request_;
  double largest_ratio_ = 0;
};

StepLoop loop_of(std::int64_t num_steps) {
  StepLoop loop;
  loop.model = model();
  loop.dtype = at::kDouble;
  loop.num_ranks = kRanks;
  loop.num_steps = num_steps;
  loop.seed = 11;
  loop.schedule = {.peak = 1e-2, .minimum = 1e-3, .warmup_steps = 2, .total_steps = num_steps};
  return loop;
}

std::vector<StepMetrics> run(StepLoop loop, const MemorySource& source, PlanFeed& feed) {
  std::vector<StepMetrics> steps;
  loop.on_step = [&](const StepMetrics& metrics) { steps.push_back(metrics); };
  run_step_loop(loop, source, feed);
  return steps;
}

TEST(OffloadTraining, PlansThatOffloadTrainAsPlansThatDoNotOnFewerRanksPerSequence) {
  MemorySource source;
  OffloadFeed with(source, true), without(source, false);
  StepLoop loop = loop_of(10);
  const auto kept = run(loop, source, without);
  loop.make_offload_tier = [] { return std::make_unique<testing::LateTier>(5); };
  const auto offloaded = run(loop, source, with);
  ASSERT_GT(with.largest_ratio(), 0);
  ASSERT_EQ(offloaded.size(), kept.size());
  for (std::size_t s = 0; s < kept.size(); ++s) {
    EXPECT_NEAR(offloaded[s].loss, kept[s].loss, 1e-9);
    EXPECT_LT(offloaded[s].max_degree, kept[s].max_degree);
    EXPECT_GT(offloaded[s].offload_bytes, 0_B);
    EXPECT_EQ(offloaded[s].offload_bytes, offloaded[0].offload_bytes);
    EXPECT_GT(offloaded[s].times[Phase::kOffload], 0);
    EXPECT_EQ(kept[s].offload_bytes, 0_B);
    EXPECT_EQ(kept[s].times[Phase::kOffload], 0);
    double sum = 0;
    for (const double phase_s : offloaded[s].times.seconds) sum += phase_s;
    EXPECT_NEAR(sum, offloaded[s].times.step_s, 0.02 * sum);
  }
}

TEST(OffloadTraining, AFailedCopyOnOneRankEndsAllRanksWithItsErrorAndNoUpdate) {
  for (const bool write : {true, false}) {
    MemorySource source;
    OffloadFeed feed(source, true);
    StepLoop loop = loop_of(4);
    loop.make_offload_tier = [&] {
      return std::make_unique<testing::FailingTier>(write ? 30 : -1, write ? -1 : 30);
    };
    std::vector<StepMetrics> steps;
    loop.on_step = [&](const StepMetrics& metrics) { steps.push_back(metrics); };
    try {
      run_step_loop(loop, source, feed);
      FAIL() << "no error";
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("/fake"));
    }
    EXPECT_LT(steps.size(), 4U);
  }
}

TEST(OffloadTraining, APlanForAnotherNumberOfLayersIsRefused) {
  MemorySource source;
  OffloadFeed feed(source, true);
  StepLoop loop = loop_of(1);
  loop.model.num_layers = kLayers + 1;
  loop.make_offload_tier = [] { return std::make_unique<testing::MapTier>(); };
  try {
    run_step_loop(loop, source, feed);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("layers"));
  }
}

}  // namespace
}  // namespace weft
