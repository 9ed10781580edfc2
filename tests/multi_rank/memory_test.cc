// Memory as a whole: what the model predicts before a step against what the allocator counts in it,
// over configurations of every kind; and steps whose allocations do not change.
//
// WEFT_LONG_TESTS=1 in the environment runs ten times as many configurations, and the 500 steps of
// the bar.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/random.h"
#include "cost/cpu_estimate.h"
#include "memory/counting_allocator.h"
#include "plan/planner.h"
#include "tests/support/memory_source.h"
#include "train/step_loop.h"

namespace weft {
namespace {

using testing::MemorySource;

bool runs_long() { return std::getenv("WEFT_LONG_TESTS") != nullptr; }

// One run: a model, how it is run, and the lengths of its steps.
struct Setting {
  ModelConfig model;
  bool wide = false;  // fp64
  Recompute recompute = Recompute::kNone;
  std::int32_t num_ranks = 1;
  std::string strategy = "hdp";
  Tokens capacity = Tokens(256);
  Bytes budget = Bytes(0);
  std::vector<std::vector<std::int64_t>> steps = {};  // lengths
  double share_with_target = 1;
};

std::string describe(const Setting& s) {
  const ModelConfig& m = s.model;
  return fmt::format(
      "hidden {}, {} layers, {}/{} heads of {}, feed-forward {}, vocabulary {}, {}, {}, recompute "
      "{}, {} ranks, {}, capacity {}, first step of {} sequences",
      m.hidden_size, m.num_layers, m.num_heads, m.num_kv_heads, m.head_dim, m.intermediate_size,
      m.vocab_size, m.tie_word_embeddings ? "tied" : "untied", s.wide ? "fp64" : "fp32",
      kRecomputeNames[static_cast<std::size_t>(s.recompute)], s.num_ranks, s.strategy, s.capacity,
      s.steps[0].size());
}

// Plans given lengths; ids count up over all steps.
class LengthsFeed final : public PlanFeed {
 public:
  LengthsFeed(const Setting& setting, MemorySource& source) : setting_(setting) {
    std::int64_t id = 0;
    for (const auto& lengths : setting.steps) {
      std::vector<SequenceSpec> step;
      for (const std::int64_t length : lengths) {
        auto document = MemorySource::random_document(7, id, length, setting.model.vocab_size);
        const auto kept =
            static_cast<std::int64_t>(setting.share_with_target * static_cast<double>(length - 1));
        document = MemorySource::masked(std::move(document), {0, kept});
        source.add(id, std::move(document));
        step.push_back({.id = id++, .tokens = Tokens(length), .num_targets = kept});
      }
      steps_.push_back(std::move(step));
    }
  }

  FedPlan next() override {
    PlanRequest request;
    request.options.step = next_step_;
    request.sequences = steps_.at(static_cast<std::size_t>(next_step_++));
    request.cluster = uniform_cluster(setting_.num_ranks, setting_.num_ranks);
    request.cost = estimate_cpu_cost({.num_layers = setting_.model.num_layers});
    request.options.strategy = setting_.strategy;
    request.options.capacity = setting_.capacity;
    return {make_plan(request), 0, {}};
  }

 private:
  const Setting& setting_;
  std::vector<std::vector<SequenceSpec>> steps_;
  std::int64_t next_step_ = 0;
};

MemoryShape shape_of(const Setting& setting) {
  const ModelConfig& model = setting.model;
  return {.layer = layer_sizes(model),
          .num_layers = model.num_layers,
          .vocab_size = model.vocab_size,
          .num_parameters = num_parameters(model),
          .element_bytes = setting.wide ? 8 : 4,
          .recompute = setting.recompute,
          .num_ranks = setting.num_ranks,
          .threads_per_rank = 1};
}

std::vector<StepMetrics> run(const Setting& setting) {
  MemorySource source;
  LengthsFeed feed(setting, source);
  StepLoop loop;
  loop.model = setting.model;
  loop.dtype = setting.wide ? at::kDouble : at::kFloat;
  loop.recompute = setting.recompute;
  loop.num_ranks = setting.num_ranks;
  loop.num_steps = static_cast<std::int64_t>(setting.steps.size());
  loop.memory = {.shape = shape_of(setting), .bytes = setting.budget};
  std::vector<StepMetrics> steps;
  loop.on_step = [&](const StepMetrics& metrics) { steps.push_back(metrics); };
  run_step_loop(loop, source, feed);
  return steps;
}

// Numbers of one purpose, one after another.
class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view purpose) : random_(seed, purpose) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(
                       random_.below(next_++, static_cast<std::uint64_t>(most - least + 1)));
  }
  template <class T>
  T of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        between(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  RandomStream random_;
  std::uint64_t next_ = 0;
};

Setting random_setting(std::uint64_t seed) {
  Draws draw(seed, "memory test");
  const std::int64_t kv_heads = draw.of<std::int64_t>({1, 2, 3});
  Setting setting{
      .model = {.vocab_size = draw.of<std::int64_t>({50, 1000, 5000}),
                .hidden_size = draw.of<std::int64_t>({16, 48, 64, 100}),
                .num_layers = draw.between(1, 5),
                .num_heads = kv_heads * draw.between(1, 4),
                .num_kv_heads = kv_heads,
                .head_dim = draw.of<std::int64_t>({2, 8, 16, 64}),
                .intermediate_size = draw.of<std::int64_t>({8, 100, 300}),
                .tie_word_embeddings = draw.between(0, 1) == 1},
      .wide = draw.between(0, 3) == 0,
      .recompute = draw.of<Recompute>({Recompute::kNone, Recompute::kAttention, Recompute::kFull}),
      .num_ranks = static_cast<std::int32_t>(draw.between(1, 4)),
      .strategy = draw.of<std::string>({"hdp", "static", "pow2", "hdp-naive", "sorted"}),
      .capacity = Tokens(draw.between(100, 1100))};
  setting.share_with_target = draw.of<double>({1, 1, 0.5, 0});
  // As long as all ranks' capacity allows a power of two of them to share.
  const std::int64_t longest =
      setting.capacity.value() * (setting.num_ranks == 3 ? 2 : setting.num_ranks);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = draw.between(1, 5); i > 0; --i) lengths.push_back(draw.between(1, longest));
  setting.steps = {lengths};
  return setting;
}

// Bar: predicted against measured within 10 %, over 30 configurations and more. The prediction is
// tighter than that: it may be above by 2 % and, for small tensors that it leaves out, below by
// 0.5 % + 32 KiB. A plan does not say which tokens of a shared sequence have targets: where only
// some have, the prediction counts as many as can be, and is a bound.
TEST(MemoryModel, ThePredictedPeakOfRandomConfigurationsIsTheMeasuredOne) {
  constexpr std::uint64_t kSeed = 20261;
  const std::uint64_t count = runs_long() ? 600 : 32;
  double lowest = 1, highest = 1;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Setting setting = random_setting(kSeed + i);
    SCOPED_TRACE(fmt::format("seed {}: {}", kSeed + i, describe(setting)));
    for (const StepMetrics& step : run(setting)) {
      const double measured = static_cast<double>(step.peak_bytes.value());
      const double predicted = static_cast<double>(step.predicted_peak_bytes.value());
      EXPECT_LE(measured, predicted * 1.005 + 32768);
      if (setting.share_with_target == 0.5 && step.sharded_sequences > 0) continue;
      EXPECT_GE(measured, predicted * 0.98 - 32768);
      lowest = std::min(lowest, measured / predicted);
      highest = std::max(highest, measured / predicted);
    }
  }
  std::printf("measured / predicted over %d configurations: %.4f to %.4f\n",
              static_cast<int>(count), lowest, highest);
}

// Large enough that its tensors are blocks of the cache: 256 KiB and more.
Setting budget_setting(std::int64_t num_steps, std::uint64_t seed) {
  Setting setting{.model = {.vocab_size = 2000,
                            .hidden_size = 128,
                            .num_layers = 3,
                            .num_heads = 4,
                            .num_kv_heads = 2,
                            .head_dim = 32,
                            .intermediate_size = 256},
                  .num_ranks = 2};
  Draws draw(seed, "budget steps");
  const Bytes at_capacity =
      predict_peak(shape_of(setting), largest_micro_batch(shape_of(setting), Tokens(700))).total();
  setting.budget = Bytes((at_capacity.value() * 10 + 8) / 9 + 1);
  // What a run with plan.capacity = 0 would choose at 90 % of the budget.
  setting.capacity =
      largest_capacity(shape_of(setting), setting.budget * 9 / 10, Tokens(1 << 20)).value();
  for (std::int64_t step = 0; step < num_steps; ++step) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t left = 2 * setting.capacity.value() - 100; left > 0;) {
      // Mostly short, some up to what only both ranks together hold.
      const std::int64_t most = draw.between(0, 9) == 0 ? left : std::min<std::int64_t>(left, 300);
      lengths.push_back(draw.between(1, most));
      left -= lengths.back();
    }
    setting.steps.push_back(std::move(lengths));
  }
  return setting;
}

// Bar (case C097): steps of random lengths at 90 % of the budget never exceed it, and the memory of
// the process does not grow: neither tensors nor blocks kept for reuse.
TEST(MemoryBudget, C097RandomStepsAtNineTenthsOfTheBudgetNeverExceedIt) {
  constexpr std::uint64_t kSeed = 97;
  const std::int64_t num_steps = runs_long() ? 500 : 15;
  const Setting setting = budget_setting(num_steps, kSeed);
  EXPECT_EQ(setting.capacity, Tokens(700));
  limit_large_blocks(setting.num_ranks * setting.budget);
  const std::vector<StepMetrics> steps = run(setting);
  limit_large_blocks(Bytes(0));
  Bytes largest, resident_early, resident_late;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    ASSERT_LE(steps[i].peak_bytes, setting.budget) << "step " << i << ", seed " << kSeed;
    ASSERT_LE(steps[i].peak_bytes, steps[i].predicted_peak_bytes + 64_KiB) << "step " << i;
    largest = std::max(largest, steps[i].peak_bytes);
    Bytes& resident = i < steps.size() / 5 ? resident_early : resident_late;
    resident = std::max(resident, steps[i].resident_bytes);
  }
  const Bytes outside = predict_peak(shape_of(setting), MicroBatchSize()).outside;
  EXPECT_LE(largest + outside, setting.budget * 9 / 10 + 64_KiB);
  EXPECT_GE(largest + outside, setting.budget * 8 / 10);  // they were near it
#ifndef __SANITIZE_ADDRESS__                              // which keeps what was freed for a while
  EXPECT_LE(resident_late, resident_early + setting.num_ranks * setting.budget / 10);
#endif
  std::printf("%zu steps: budget %s, largest peak %s, process at most %s early, %s later\n",
              steps.size(), format_bytes(setting.budget).c_str(), format_bytes(largest).c_str(),
              format_bytes(resident_early).c_str(), format_bytes(resident_late).c_str());
}

TEST(MemoryBudget, APlanOverTheBudgetIsRefusedBeforeItsStepAndNamed) {
  Setting setting = budget_setting(3, 5);
  const Bytes small =
      predict_peak(shape_of(setting), largest_micro_batch(shape_of(setting), Tokens(400))).total();
  setting.steps = {{300, 200}, {100, 50}, {1300}, {10}};
  setting.budget = small;
  MemorySource source;
  LengthsFeed feed(setting, source);
  StepLoop loop;
  loop.model = setting.model;
  loop.num_ranks = setting.num_ranks;
  loop.num_steps = 4;
  loop.memory = {.shape = shape_of(setting), .bytes = setting.budget};
  std::int64_t steps_run = 0;
  loop.on_step = [&](const StepMetrics&) { ++steps_run; };
  try {
    run_step_loop(loop, source, feed);
    FAIL() << "650 tokens were run in the memory of 400";
  } catch (const UserError& error) {
    const std::string message = error.what();
    for (const char* part : {"micro-batch 0 of rank 0", "step 2", "650 tokens",
                             "memory.budget_bytes", "activations", "loss"}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    }
  }
  EXPECT_EQ(steps_run, 2);
}

std::array<std::int64_t, kNumPhases> allocations_of(const StepMetrics& step) {
  return step.times.allocations;
}

// Bar: allocations in a steady step are constant.
TEST(Allocations, StepsOfOneShapeMakeTheSameTensorsAndOnlyWhereTheyCompute) {
  for (const std::int32_t num_ranks : {1, 2, 3}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      Setting setting{.model = {.vocab_size = 60,
                                .hidden_size = 32,
                                .num_layers = 2,
                                .num_heads = 2,
                                .num_kv_heads = 2,
                                .head_dim = 16,
                                .intermediate_size = 48},
                      .recompute = recompute,
                      .num_ranks = num_ranks,
                      .capacity = Tokens(64)};
      // Other sequences, the same lengths.
      for (int step = 0; step < 8; ++step) setting.steps.push_back({60, 60 * num_ranks, 30, 7});
      const std::vector<StepMetrics> steps = run(setting);
      const auto first = allocations_of(steps[1]);
      for (std::size_t i = 2; i < steps.size(); ++i) {
        EXPECT_EQ(allocations_of(steps[i]), first) << "step " << i << " on " << num_ranks;
      }
      const auto count = [&](Phase phase) { return first[static_cast<std::size_t>(phase)]; };
      EXPECT_GT(count(Phase::kForward), 0);
      EXPECT_GT(count(Phase::kBackward), 0);
      EXPECT_EQ(count(Phase::kPlan), 0);
      EXPECT_EQ(count(Phase::kReduce), 0);
      EXPECT_EQ(count(Phase::kOptimizer), 0);
    }
  }
}

// One rank and one micro-batch of one chunk: what docs/memory.md lists.
TEST(Allocations, AMicroBatchMakesSoManyTensorsAndEachLayerSoManyMore) {
  std::array<std::array<std::int64_t, kNumPhases>, 3> by_layers{};
  for (std::int64_t layers = 1; layers <= 3; ++layers) {
    Setting setting{.model = {.vocab_size = 60,
                              .hidden_size = 32,
                              .num_layers = layers,
                              .num_heads = 2,
                              .num_kv_heads = 2,
                              .head_dim = 16,
                              .intermediate_size = 48}};
    setting.steps = {{100}, {100}};
    by_layers[static_cast<std::size_t>(layers - 1)] = allocations_of(run(setting).back());
  }
  for (const Phase phase : {Phase::kData, Phase::kForward, Phase::kBackward}) {
    const auto at = [&](int layers) {
      return by_layers[static_cast<std::size_t>(layers - 1)][static_cast<std::size_t>(phase)];
    };
    EXPECT_EQ(at(3) - at(2), at(2) - at(1));
    std::printf("phase %d: %d tensors a micro-batch and %d a layer\n", static_cast<int>(phase),
                static_cast<int>(2 * at(1) - at(2)), static_cast<int>(at(2) - at(1)));
  }
}

}  // namespace
}  // namespace weft
