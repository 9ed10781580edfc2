// Bound <= relaxed integer program <= plan, where the exact search cannot follow.
#include "tests/unit/plan/relaxed_program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "plan/planner.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::request_of;
using testing::sequences_of;

class RelaxedProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_solver())
      GTEST_SKIP() << "no glpsol here; Debian: apt-get install glpk-utils";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("weft_relaxed_{}", ::getpid());
};

// Lengths that halve up to eight times below half of what all ranks hold.
std::vector<SequenceSpec> mixed_step(std::uint64_t seed, std::int32_t num_ranks,
                                     std::int64_t capacity, std::uint64_t count) {
  const RandomStream random(seed, "relaxed program");
  std::vector<std::int64_t> lengths;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int64_t most = capacity * num_ranks / 2;
    for (std::uint64_t halvings = random.below(2 * i, 9); halvings > 0; --halvings) most /= 2;
    lengths.push_back(
        1 + most / 2 +
        static_cast<std::int64_t>(random.below(2 * i + 1, static_cast<std::uint64_t>(most / 2))));
  }
  std::vector<SequenceSpec> sequences = sequences_of(lengths);
  sort_canonically(sequences);
  return sequences;
}

TEST_F(RelaxedProgram, KnowsAStepThatCanBeCheckedByHand) {
  // One sequence of 4 on 2 ranks. Whole: 20 + 40 + 7 = 67. Shared: a member's mean is
  // (40 + 14 + 20 / 2) / 2 = 32, and one hop of 5 + 3 * 2.
  const std::vector<SequenceSpec> sequences = sequences_of({4});
  const CostModel cost = testing::hand_cost();
  const double optimum = testing::solve_relaxed(
      {.sequences = sequences, .cost = &cost, .num_ranks = 2, .capacity = Tokens(4)}, folder_);
  EXPECT_NEAR(optimum, 43, 1e-3);
}

TEST_F(RelaxedProgram, LiesBetweenBoundAndPlanOfEightRanksAndTwentySequences) {
  double over_bound = 0;
  double over_relaxed = 0;
  constexpr std::uint64_t kSeeds = 12;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    PlanRequest request = request_of("hdp", mixed_step(seed, 8, 8192, 20), 8, 8192);
    if (seed % 3 == 1) request.cost.hop_ns_per_token *= 4;
    if (seed % 3 == 2) request.cost.fixed_ns *= 10;
    const StepPlan plan = make_plan(request);
    const double optimum = testing::solve_relaxed({.sequences = plan.sequences,
                                                   .cost = &request.cost,
                                                   .num_ranks = 8,
                                                   .capacity = Tokens(8192)},
                                                  folder_);
    const auto bound = static_cast<double>(plan.lower_bound.value());
    const auto makespan = static_cast<double>(plan.makespan.value());
    EXPECT_LE(bound, optimum * (1 + 1e-7)) << "seed " << seed;
    EXPECT_LE(optimum, makespan * (1 + 1e-7)) << "seed " << seed;
    for (const std::string strategy : {"hdp-naive", "pow2", "static"}) {
      request.options.strategy = strategy;
      EXPECT_LE(optimum, static_cast<double>(make_plan(request).makespan.value()) * (1 + 1e-7))
          << "seed " << seed << ", " << strategy;
    }
    over_bound += optimum / bound - 1;
    over_relaxed += makespan / optimum - 1;
  }
  fmt::print(
      "8 ranks, 20 sequences, seeds 0-{}: the relaxed optimum lies {:.2f} % above the bound, plans "
      "{:.2f} % above it, on average\n",
      kSeeds - 1, 100 * over_bound / kSeeds, 100 * over_relaxed / kSeeds);
  EXPECT_LT(over_relaxed / kSeeds, 0.10);
}

}  // namespace
}  // namespace weft
