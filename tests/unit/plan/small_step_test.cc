// Steps of few sequences, as a laptop run has them: here the planner has little to balance with,
// and sharing everything is often as fast as sharing only what must be shared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/random.h"
#include "plan/evaluate.h"
#include "plan/hdp_search.h"
#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "tests/unit/plan/length_mixes.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::kStrategies;
using testing::request_of;
using testing::sequences_of;

constexpr std::int64_t kCapacity = 4096;

// A CPU rank and a model of 2 layers, width 128 (configs/demo.toml): 184,320 weights a layer and
// 16,640 of the head at 45 GFLOP/s, attention of 4 x 128 FLOPs a pair at 20 GFLOP/s, 512 bytes of K
// and V a token at 4 GB/s.
CostModel small_model_cost() {
  return {.name = "small-cpu",
          .source = "test",
          .num_layers = 2,
          .attention_ns_per_pair = 25.6,
          .linear_ns_per_token = 8932,
          .fixed_ns = 60e3,
          .hop_ns_per_token = 128,
          .hop_fixed_ns = 20e3,
          .backward_ratio = 2};
}

struct Outcome {
  Nanoseconds makespan;
  Tokens exchange;
  std::int64_t shared = 0;
  std::int64_t needlessly_shared = 0;  // sequences that fit on one rank
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome_of(const std::string& strategy, const std::vector<SequenceSpec>& sequences,
                   std::int32_t num_ranks = 4) {
  PlanRequest request = request_of(strategy, sequences, num_ranks, kCapacity);
  request.cost = small_model_cost();
  request.options.max_context = Tokens(std::min<std::int64_t>(num_ranks, 4) * kCapacity);
  const StepPlan plan = make_plan(request);
  const Evaluation evaluation = evaluate(plan, request.cost, request.cluster);
  Outcome outcome{.makespan = plan.makespan,
                  .exchange = evaluation.exchange_tokens,
                  .shared = evaluation.sharded_sequences};
  for (const Group& group : plan.groups) {
    const Tokens tokens = plan.sequences[static_cast<std::size_t>(group.sequence_idx)].tokens;
    if (tokens <= Tokens(kCapacity)) ++outcome.needlessly_shared;
  }
  return outcome;
}

void print_row(const char* label, std::uint64_t number, std::size_t num_sequences,
               const std::array<Outcome, 3>& outcomes) {
  fmt::print("{} {:>3}, {:>3} sequences", label, number, num_sequences);
  for (std::size_t s = 0; s < outcomes.size(); ++s) {
    fmt::print(" | {} {:.3f} s {:>6} sent {:>3} shared", kStrategies[s],
               static_cast<double>(outcomes[s].makespan.value()) * 1e-9, outcomes[s].exchange,
               outcomes[s].shared);
  }
  fmt::print("\n");
}

std::array<Outcome, 3> outcomes_of(const std::vector<SequenceSpec>& sequences,
                                   std::int32_t num_ranks = 4) {
  std::array<Outcome, 3> outcomes;
  for (std::size_t s = 0; s < outcomes.size(); ++s)
    outcomes[s] = outcome_of(kStrategies[s], sequences, num_ranks);
  return outcomes;
}

// C038 on a small step: static is as fast here, but shares every sequence.
TEST(SmallStep, NoSequenceThatFitsOnOneRankIsSharedWhereThatGainsNothing) {
  std::vector<std::int64_t> lengths{16'384, 9000, 5000, 3000, 3000};
  lengths.insert(lengths.end(), 6, 1500);
  lengths.insert(lengths.end(), 8, 700);
  lengths.insert(lengths.end(), 30, 300);
  const auto outcomes = outcomes_of(sequences_of(lengths));
  print_row("step", 0, lengths.size(), outcomes);
  const auto& [fixed, naive, hdp] = outcomes;
  EXPECT_LE(hdp.makespan, equal_makespan(std::min(fixed.makespan, naive.makespan)));
  EXPECT_EQ(hdp.needlessly_shared, 0);
  EXPECT_EQ(hdp.shared, 3);
  EXPECT_LT(hdp.exchange, fixed.exchange);
}

TEST(SmallStep, HdpIsAsFastAsTheBestAndSendsNoMoreThanStatic) {
  std::array<std::int64_t, 2> needless{};  // static, hdp
  std::array<Tokens, 2> exchange;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const auto num_ranks = static_cast<std::int32_t>(4 + seed % 5);
    const auto sequences = testing::draw_lengths(testing::kGithubShares, Tokens(num_ranks * 8192),
                                                 Tokens(16'384), seed);
    const auto outcomes = outcomes_of(sequences, num_ranks);
    print_row("seed", seed, sequences.size(), outcomes);
    const auto& [fixed, naive, hdp] = outcomes;
    EXPECT_LE(hdp.makespan, equal_makespan(std::min(fixed.makespan, naive.makespan)))
        << "seed " << seed;
    EXPECT_LE(hdp.exchange, fixed.exchange) << "seed " << seed;
    needless[0] += fixed.needlessly_shared;
    needless[1] += hdp.needlessly_shared;
    exchange[0] += fixed.exchange;
    exchange[1] += hdp.exchange;
    EXPECT_EQ(outcome_of("hdp", sequences, num_ranks), hdp) << "seed " << seed << ", again";
  }
  fmt::print(
      "shared although they fit on one rank: static {}, hdp {}; tokens sent: static {}, hdp {}\n",
      needless[0], needless[1], exchange[0], exchange[1]);
  EXPECT_LT(needless[1] * 20, needless[0]);
  EXPECT_LT(exchange[1] * 4, exchange[0] * 3);
}

// Half a percent is what a cost model cannot tell apart.
TEST(SmallStep, HdpIsNoSlowerThanAnyOtherWhateverAMicroBatchCosts) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 240; ++seed) {
    const RandomStream random(seed, "dear micro-batches");
    const auto num_ranks = static_cast<std::int32_t>(2 + random.below(0, 31));
    const auto tokens = Tokens(num_ranks * (4096 << random.below(1, 5)));
    const auto most =
        Tokens(std::min<std::int64_t>(num_ranks * kCapacity, 8192 << random.below(2, 5)));
    PlanRequest request =
        request_of("hdp", testing::draw_lengths(testing::kGithubShares, tokens, most, seed),
                   num_ranks, kCapacity);
    request.cost.fixed_ns *= static_cast<double>(1 + 3 * random.below(3, 4));
    const Nanoseconds hdp = make_plan(request).makespan;
    for (const char* strategy : {"pow2", "hdp-naive", "hdp-algorithm2"}) {
      request.options.strategy = strategy;
      const double other = ratio(hdp, make_plan(request).makespan);
      worst = std::max(worst, other);
      EXPECT_LE(other, 1.005) << strategy << ", seed " << seed << ": " << num_ranks << " ranks, "
                              << request.sequences.size() << " sequences";
    }
  }
  fmt::print("hdp over the best other: at most {:.4f}\n", worst);
}

// Where sharing a sequence that fits is the only way to use the ranks, hdp still does it.
TEST(SmallStep, ASequenceThatFitsIsSharedWhereThatIsFaster) {
  const Outcome alone = outcome_of("hdp", sequences_of({4000}));
  EXPECT_EQ(alone.needlessly_shared, 1);
  const Outcome with_equals = outcome_of("hdp", sequences_of({4000, 4000, 4000, 4000}));
  EXPECT_EQ(with_equals.needlessly_shared, 0);
}

TEST(SmallStep, MakespansWithinFourPerMilleAreEqual) {
  EXPECT_EQ(equal_makespan(Nanoseconds(0)), Nanoseconds(0));
  EXPECT_EQ(equal_makespan(Nanoseconds(1000)), Nanoseconds(1004));
  EXPECT_EQ(equal_makespan(Nanoseconds(50)), Nanoseconds(50));  // rounded down: never more
}

}  // namespace
}  // namespace weft
