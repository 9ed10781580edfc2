// Training as a whole: the same losses under any rank count and strategy, thousands of random plans
// without a hang, and steps that must change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>

#include "base/random.h"
#include "comm/collectives.h"
#include "cost/cpu_estimate.h"
#include "plan/planner.h"
#include "tests/support/memory_source.h"
#include "tests/support/random_plan.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_ranks.h"
#include "train/step_loop.h"

namespace weft {
namespace {

using testing::MemorySource;

constexpr Tokens kLongest(60);  // of every sequence here

ModelConfig tiny_model() {
  return {.vocab_size = 37,
          .hidden_size = 16,
          .num_layers = 2,
          .num_heads = 4,
          .num_kv_heads = 2,
          .head_dim = 4,
          .intermediate_size = 24,
          .tie_word_embeddings = true};
}

// Adds a document of random tokens and gives its specification.
SequenceSpec add_document(MemorySource& source, std::int64_t id, MemorySource::Document document) {
  const auto tokens = static_cast<std::int64_t>(document.tokens.size());
  source.add(id, std::move(document));
  return {.id = id, .tokens = Tokens(tokens), .num_targets = tokens - 1};
}

// `count` sequences of 1 to `longest` tokens with ids from `first_id`.
void add_random_sequences(MemorySource& source, std::vector<SequenceSpec>& step, std::uint64_t seed,
                          std::int64_t first_id, int count, std::uint64_t longest) {
  const RandomStream random(seed, "training test");
  for (std::int64_t id = first_id; id < first_id + count; ++id) {
    const auto length =
        1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(id), longest));
    step.push_back(add_document(source, id, MemorySource::random_document(seed, id, length, 37)));
  }
  sort_canonically(step);
}

// Feeds given steps through a planner of the test's choice.
class StepsFeed final : public PlanFeed {
 public:
  using Planner = std::function<StepPlan(std::vector<SequenceSpec>, std::int64_t step)>;
  StepsFeed(std::vector<std::vector<SequenceSpec>> steps, Planner planner)
      : steps_(std::move(steps)), planner_(std::move(planner)) {}
  FedPlan next() override {
    const std::int64_t step = next_step_++;
    return {planner_(steps_.at(static_cast<std::size_t>(step)), step), 0, {}};
  }

 private:
  std::vector<std::vector<SequenceSpec>> steps_;
  Planner planner_;
  std::int64_t next_step_ = 0;
};

StepsFeed::Planner strategy_planner(const std::string& strategy, std::int32_t num_ranks,
                                    Tokens capacity) {
  return [=](std::vector<SequenceSpec> sequences, std::int64_t step) {
    PlanRequest request;
    request.sequences = std::move(sequences);
    request.cluster = uniform_cluster(num_ranks, num_ranks);
    request.cost = estimate_cpu_cost({.num_layers = 2,
                                      .hidden_size = 16,
                                      .query_size = 16,
                                      .kv_size = 8,
                                      .intermediate_size = 24,
                                      .vocab_size = 37});
    request.options = {.strategy = strategy, .capacity = capacity, .max_context = kLongest};
    request.options.step = step;
    return make_plan(request);
  };
}

StepLoop tiny_loop(std::int32_t num_ranks, at::ScalarType dtype, std::int64_t num_steps) {
  StepLoop loop;
  loop.model = tiny_model();
  loop.dtype = dtype;
  loop.num_ranks = num_ranks;
  loop.num_steps = num_steps;
  loop.seed = 11;
  loop.schedule = {.peak = 1e-2, .minimum = 1e-3, .warmup_steps = 5, .total_steps = num_steps};
  return loop;
}

// On threads, whatever ranks the test runs on.
std::vector<double> losses_of(StepLoop loop, const MemorySource& source, PlanFeed& feed) {
  std::vector<double> losses;
  loop.on_step = [&](const StepMetrics& metrics) { losses.push_back(metrics.loss); };
  run_step_loop(loop, source, feed);
  return losses;
}

// On the test's ranks; every rank learns the losses that rank 0 saw.
std::vector<double> losses_on_ranks(const StepLoop& loop, const MemorySource& source,
                                    PlanFeed& feed) {
  std::vector<double> losses;
  prepare_process(loop.threads_per_rank);
  testing::run_test_ranks(loop.num_ranks, [&](Communicator& comm) {
    std::vector<double> seen;
    StepLoop own = loop;
    own.on_step = [&](const StepMetrics& metrics) { seen.push_back(metrics.loss); };
    run_steps(own, source, &feed, comm);
    seen.resize(static_cast<std::size_t>(loop.num_steps));
    broadcast(comm, Rank(0), std::as_writable_bytes(std::span(seen)), {.operation = "losses"});
    if (testing::keeps_results(comm)) losses = seen;
  });
  return losses;
}

constexpr std::int64_t kFiftySteps = testing::unless_sanitized(50, 10);

struct FiftySteps {
  MemorySource source;
  std::vector<std::vector<SequenceSpec>> steps;
  FiftySteps() {
    for (std::int64_t s = 0; s < kFiftySteps; ++s) {
      steps.emplace_back();
      add_random_sequences(source, steps.back(), 5, 100 * s, 6, 60);
    }
  }
};

void expect_same_losses(at::ScalarType dtype, double tolerance) {
  const FiftySteps data;
  constexpr Tokens kOneRankHoldsAll(64);
  StepsFeed reference_feed(data.steps, strategy_planner("hdp", 1, kOneRankHoldsAll));
  const auto reference = losses_of(tiny_loop(1, dtype, kFiftySteps), data.source, reference_feed);
  if (!testing::kIsSanitized) {  // a few steps show no progress yet
    EXPECT_LT(reference.back(), reference.front());
  }
  for (const std::string& strategy : strategy_names()) {
    for (const std::int32_t num_ranks : {1, 2, 3, 4, 7}) {
      if (!testing::can_run_ranks(num_ranks)) continue;
      // A small capacity shards sequences over all ranks; a large one keeps them whole.
      for (const Tokens capacity :
           {kOneRankHoldsAll, Tokens((60 + num_ranks - 1) / num_ranks + 1)}) {
        StepsFeed feed(data.steps, strategy_planner(strategy, num_ranks, capacity));
        const auto losses =
            losses_on_ranks(tiny_loop(num_ranks, dtype, kFiftySteps), data.source, feed);
        ASSERT_EQ(losses.size(), reference.size());
        for (std::size_t s = 0; s < losses.size(); ++s) {
          ASSERT_NEAR(losses[s], reference[s], tolerance)
              << strategy << ", " << num_ranks << " ranks, capacity " << capacity.value()
              << ", step " << s;
        }
      }
    }
  }
}

TEST(Training, FiftyStepsHaveTheSameLossesUnderEveryStrategyAndRankCountInDouble) {
  expect_same_losses(at::kDouble, 1e-9);
}

TEST(Training, FiftyStepsHaveTheSameLossesUnderEveryStrategyAndRankCountInFloat) {
  expect_same_losses(at::kFloat, 1e-3);
}

TEST(Training, AThousandStepsOfRandomPlansOnFourRanksNeitherHangNorDrift) {
  constexpr std::int64_t kSteps = testing::unless_sanitized(1000, 100);
  constexpr std::uint64_t kSeed = 20261130;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  MemorySource source;
  std::vector<std::vector<SequenceSpec>> steps(kSteps);
  const RandomStream random(kSeed, "counts");
  for (std::int64_t s = 0; s < kSteps; ++s) {
    const int count =
        static_cast<int>(random.below(static_cast<std::uint64_t>(s), 6));  // 0 sequences, too
    add_random_sequences(source, steps[static_cast<std::size_t>(s)], kSeed, 100 * s, count, 24);
  }
  const auto random_planner = [&](std::vector<SequenceSpec> sequences, std::int64_t step) {
    StepPlan plan = random_plan({.num_ranks = 4,
                                 .sequences = std::move(sequences),
                                 .capacity = Tokens(40),
                                 .seed = kSeed + static_cast<std::uint64_t>(step),
                                 .allow_unequal_cuts = true});
    plan.step = step;
    return plan;
  };
  // AdamW divides by the root of the second moment: with a tiny eps it blows the rounding noise of
  // gradients that are zero in exact arithmetic up to full updates, and two right runs part. A
  // small learning rate keeps what is left from growing over a thousand steps.
  const auto loop = [&](std::int32_t num_ranks) {
    StepLoop result = tiny_loop(num_ranks, at::kDouble, kSteps);
    result.optimizer.eps = 1e-4;
    result.schedule.peak = 1e-3;
    return result;
  };
  StepsFeed one(steps, strategy_planner("hdp", 1, Tokens(64)));
  const auto reference = losses_of(loop(1), source, one);
  StepsFeed four(steps, random_planner);
  const auto losses = losses_of(loop(4), source, four);
  ASSERT_EQ(losses.size(), reference.size());
  for (std::size_t s = 0; s < losses.size(); ++s) {
    if (std::isnan(reference[s])) {
      EXPECT_TRUE(std::isnan(losses[s])) << "step " << s;
    } else {
      // Rounding differences of 1e-16 grow through the updates; a wrong gradient shows at once.
      const double tolerance = s < 100 ? 1e-9 : 1e-6;
      ASSERT_NEAR(losses[s], reference[s], tolerance) << "step " << s;
    }
  }
}

std::vector<std::vector<float>> parameters_after(StepLoop loop, const MemorySource& source,
                                                 PlanFeed& feed) {
  std::vector<std::vector<float>> values;
  loop.on_finished = [&](const ParameterSet& parameters) {
    for (std::size_t i = 0; i < parameters.infos().size(); ++i) {
      const at::Tensor flat = parameters.value(i).contiguous().view(-1);
      values.emplace_back(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
  };
  run_step_loop(loop, source, feed);
  return values;
}

// A step whose only sequence has one token has no target at all.
TEST(Training, AStepWithoutTargetsIsACountedStepThatChangesNothing) {
  MemorySource source;
  std::vector<SequenceSpec> with_targets, without_targets;
  add_random_sequences(source, with_targets, 3, 0, 3, 20);
  without_targets.push_back(add_document(source, 1000, MemorySource::document({5})));
  StepLoop loop = tiny_loop(2, at::kFloat, 2);
  loop.schedule.total_steps = 10;
  const auto planner = strategy_planner("hdp", 2, Tokens(64));
  StepsFeed plain({with_targets, with_targets}, planner);
  const auto expected = parameters_after(loop, source, plain);

  loop.num_steps = 3;
  std::vector<StepMetrics> metrics;
  loop.on_step = [&](const StepMetrics& step) { metrics.push_back(step); };
  StepsFeed interrupted({with_targets, without_targets, with_targets}, planner);
  EXPECT_EQ(parameters_after(loop, source, interrupted), expected);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_TRUE(std::isnan(metrics[1].loss));
  EXPECT_EQ(metrics[1].skipped_steps, 1);
  EXPECT_EQ(metrics[2].skipped_steps, 1);
  EXPECT_EQ(metrics[2].lr, loop.schedule.at(1));  // the schedule did not advance
}

// C026. A learning rate that throws the weights out of range makes the next gradient non-finite.
TEST(Training, ANonFiniteGradientSkipsTheStepOnAllRanksAndChangesNothing) {
  const FiftySteps data;
  StepLoop loop = tiny_loop(3, at::kFloat, 1);
  loop.schedule = {.peak = 1e30, .minimum = 1e30, .warmup_steps = 1, .total_steps = 9};
  const auto planner = strategy_planner("hdp", 3, Tokens(64));
  StepsFeed one_step(data.steps, planner);
  const auto after_one = parameters_after(loop, data.source, one_step);

  loop.num_steps = 3;
  std::vector<StepMetrics> metrics;
  loop.on_step = [&](const StepMetrics& step) { metrics.push_back(step); };
  StepsFeed three_steps(data.steps, planner);
  EXPECT_EQ(parameters_after(loop, data.source, three_steps), after_one);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].skipped_steps, 0);
  EXPECT_EQ(metrics[1].skipped_steps, 1);
  EXPECT_EQ(metrics[2].skipped_steps, 2);
  EXPECT_EQ(metrics[2].lr, loop.schedule.at(1));
}

TEST(Training, APlanThatOffloadsIsRefusedAndNotRunOverItsCapacity) {
  const FiftySteps data;
  StepsFeed feed(data.steps, [](std::vector<SequenceSpec> sequences, std::int64_t step) {
    StepPlan plan = strategy_planner("hdp", 2, Tokens(64))(std::move(sequences), step);
    plan.ranks[0].at(0).offload_ratio = 0.5;
    return plan;
  });
  try {
    run_step_loop(tiny_loop(2, at::kFloat, 1), data.source, feed);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("set memory.offload = \"disk\""));
  }
}

TEST(Training, APlanForPipelinesIsRefused) {
  const FiftySteps data;
  StepsFeed feed(data.steps, [](std::vector<SequenceSpec> sequences, std::int64_t step) {
    StepPlan plan = strategy_planner("hdp", 2, Tokens(64))(std::move(sequences), step);
    plan.num_layers = plan.pipeline_stages = 2;
    return plan;
  });
  EXPECT_THROW(run_step_loop(tiny_loop(2, at::kFloat, 1), data.source, feed), UserError);
}

TEST(Training, TimeFieldsAddUpAndCountsFollowFromThePlan) {
  const FiftySteps data;
  StepLoop loop = tiny_loop(3, at::kFloat, 10);
  loop.on_step = [&](const StepMetrics& metrics) {
    double sum = 0;
    for (const double phase_s : metrics.times.seconds) sum += phase_s;
    EXPECT_NEAR(sum, metrics.times.step_s, 0.02 * metrics.times.step_s);
    EXPECT_GE(metrics.imbalance, 1.0);
    EXPECT_GT(metrics.peak_bytes, 0_B);
    Tokens tokens;
    for (const SequenceSpec& sequence : data.steps[static_cast<std::size_t>(metrics.step)])
      tokens += sequence.tokens;
    EXPECT_EQ(metrics.tokens, tokens);
    EXPECT_EQ(metrics.padded_tokens, 0_tok);
  };
  StepsFeed feed(data.steps, strategy_planner("hdp-naive", 3, Tokens(21)));
  run_step_loop(loop, data.source, feed);
}

// Per token and layer 6 FLOPs for each weight, the head's for each target, 7 products over the
// pairs.
double expected_flops(const std::vector<SequenceSpec>& sequences, OperationKind kind) {
  const ModelConfig model = tiny_model();
  const double query_size = static_cast<double>(model.num_heads * model.head_dim);
  const double kv_size = static_cast<double>(model.num_kv_heads * model.head_dim);
  const double hidden = static_cast<double>(model.hidden_size);
  const double layer_weights =
      hidden * (2 * query_size + 2 * kv_size + 3 * static_cast<double>(model.intermediate_size));
  double flops = 0;
  for (const SequenceSpec& sequence : sequences) {
    const double tokens = static_cast<double>(sequence.tokens.value());
    const double pairs = static_cast<double>(causal_work({0, sequence.tokens.value()}));
    const double layers = static_cast<double>(model.num_layers);
    flops += kind == OperationKind::kAttention
                 ? layers * 7 * 2 * query_size * pairs
                 : 6 * layers * layer_weights * tokens +
                       6 * hidden * static_cast<double>(model.vocab_size * sequence.num_targets);
  }
  return flops;
}

TEST(Training, ATracedStepChangesNothingAndItsFlopsAreThoseOfTheFormula) {
  const FiftySteps data;
  const auto planner = strategy_planner("hdp", 3, Tokens(21));
  StepsFeed plain(data.steps, planner), traced(data.steps, planner);
  StepLoop loop = tiny_loop(3, at::kDouble, 6);
  const auto expected = losses_of(loop, data.source, plain);
  loop.trace_step = 4;
  int num_traces = 0;
  loop.on_trace = [&](std::int64_t step, std::span<const RankTrace> ranks) {
    ++num_traces;
    EXPECT_EQ(step, 4);
    ASSERT_EQ(ranks.size(), 3U);
    std::array<KindTotals, kOperationKindNames.size()> sums;
    for (const RankTrace& rank : ranks) {
      double own_s = 0;
      for (std::size_t k = 0; k < sums.size(); ++k) {
        own_s += rank.kinds[k].own_s;
        sums[k].flops += rank.kinds[k].flops;
        sums[k].count += rank.kinds[k].count;
      }
      EXPECT_LE(own_s, rank.step_s);
    }
    for (const OperationKind kind : {OperationKind::kProduct, OperationKind::kAttention}) {
      EXPECT_EQ(sums[static_cast<std::size_t>(kind)].flops, expected_flops(data.steps[4], kind));
    }
    for (const KindTotals& kind : sums) EXPECT_GT(kind.count, 0);
  };
  EXPECT_EQ(losses_of(loop, data.source, traced), expected);
  EXPECT_EQ(num_traces, 1);
}

TEST(Training, APlannerErrorReachesTheCallerFromTheBackgroundThread) {
  const FiftySteps data;
  StepsFeed feed(data.steps, [](std::vector<SequenceSpec>, std::int64_t step) -> StepPlan {
    throw_user_error("no plan for step {}", step);
  });
  try {
    run_step_loop(tiny_loop(3, at::kFloat, 5), data.source, feed);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "no plan for step 0");
  }
}

}  // namespace
}  // namespace weft
