#include "plan/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace weft {
namespace {

TEST(Zigzag, MembersCoverEverySequenceOnceWhateverItsLengthAndDegree) {
  for (std::int64_t tokens = 0; tokens <= 70; ++tokens) {
    for (std::int32_t degree = 1; degree <= 9; ++degree) {
      std::vector<int> times_held(static_cast<std::size_t>(tokens), 0);
      std::int64_t least = tokens, most = 0;
      for (std::int32_t position = 0; position < degree; ++position) {
        std::int64_t held = 0;
        std::int64_t end_before = -1;
        for (const TokenRange range : zigzag_ranges(Tokens(tokens), degree, position)) {
          ASSERT_FALSE(range.empty());
          ASSERT_GT(range.begin, end_before) << "touching ranges are joined, and they ascend";
          end_before = range.end;
          held += range.size();
          for (std::int64_t t = range.begin; t < range.end; ++t) {
            ++times_held.at(static_cast<std::size_t>(t));
          }
        }
        least = std::min(least, held);
        most = std::max(most, held);
        EXPECT_EQ(held == 0, position >= tokens) << tokens << " tokens, degree " << degree;
      }
      EXPECT_LE(most - least, 1) << tokens << " tokens, degree " << degree;
      EXPECT_EQ(std::count(times_held.begin(), times_held.end(), 1), tokens)
          << tokens << " tokens, degree " << degree;
    }
  }
}

TEST(Zigzag, PartsAreTheFirstAndTheLastOfEachMember) {
  using Ranges = std::vector<TokenRange>;
  // 10 tokens in 6 parts: 2 2 2 2 1 1.
  EXPECT_EQ(zigzag_ranges(10_tok, 3, 0), (Ranges{{0, 2}, {9, 10}}));
  EXPECT_EQ(zigzag_ranges(10_tok, 3, 1), (Ranges{{2, 4}, {8, 9}}));
  EXPECT_EQ(zigzag_ranges(10_tok, 3, 2), (Ranges{{4, 8}}));
  // Shorter than 2D: the last parts are empty.
  EXPECT_EQ(zigzag_ranges(3_tok, 2, 0), (Ranges{{0, 1}}));
  EXPECT_EQ(zigzag_ranges(3_tok, 2, 1), (Ranges{{1, 3}}));
  EXPECT_EQ(zigzag_ranges(1_tok, 3, 2), (Ranges{}));
  EXPECT_EQ(zigzag_ranges(7_tok, 1, 0), (Ranges{{0, 7}}));
}

TEST(Zigzag, BalancesTheCausalWorkOfALongSequence) {
  constexpr std::int64_t kTokens = 2'000'003;
  for (const std::int32_t degree : {2, 3, 5, 7, 64, 257}) {
    std::int64_t least = causal_work({0, kTokens}), most = 0;
    for (std::int32_t position = 0; position < degree; ++position) {
      std::int64_t work = 0;
      for (const TokenRange range : zigzag_ranges(Tokens(kTokens), degree, position)) {
        work += causal_work(range);
      }
      least = std::min(least, work);
      most = std::max(most, work);
    }
    // One token more at the end of the sequence is at most kTokens pairs.
    EXPECT_LE(most - least, 2 * kTokens) << "degree " << degree;
  }
}

TEST(Zigzag, RefusesAPositionOutsideTheRing) {
  EXPECT_THROW(zigzag_ranges(5_tok, 2, 2), InternalError);
  EXPECT_THROW(zigzag_ranges(5_tok, 2, -1), InternalError);
  EXPECT_THROW(zigzag_ranges(5_tok, 0, 0), InternalError);
  EXPECT_THROW(zigzag_ranges(Tokens(-1), 2, 0), InternalError);
}

TEST(LossWeight, TotalIsTheSumOverTargetsOfTheirWeights) {
  const std::vector<SequenceSpec> sequences = {
      {7, 10_tok, 9}, {3, 10_tok, 0}, {5, 4_tok, 3}, {1, 1_tok, 1}};
  EXPECT_EQ(total_weight(sequences, LossWeighting::kToken), 13);
  EXPECT_EQ(total_weight(sequences, LossWeighting::kSample), 3);
  EXPECT_EQ(total_weight({}, LossWeighting::kToken), 0);
  for (const auto weighting : {LossWeighting::kToken, LossWeighting::kSample}) {
    double sum = 0;
    for (const SequenceSpec& sequence : sequences) {
      sum += target_weight(sequence, weighting) * static_cast<double>(sequence.num_targets);
    }
    EXPECT_NEAR(sum, static_cast<double>(total_weight(sequences, weighting)), 1e-12);
  }
  EXPECT_EQ(target_weight({0, 5_tok, 0}, LossWeighting::kToken), 0);
  EXPECT_EQ(target_weight({0, 5_tok, 0}, LossWeighting::kSample), 0);
  EXPECT_EQ(target_weight({0, 5_tok, 4}, LossWeighting::kSample), 0.25);
}

TEST(LossWeight, NamesAreReadBackAndAnotherNameIsRefusedWithItsPlace) {
  for (const auto weighting : {LossWeighting::kToken, LossWeighting::kSample}) {
    EXPECT_EQ(parse_loss_weighting(to_string(weighting), "x"), weighting);
  }
  try {
    parse_loss_weighting("tokens", "loss.weighting");
    FAIL() << "'tokens' was accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "loss.weighting is 'tokens'; expected 'token' or 'sample'");
  }
}

TEST(ResidentTokens, FirstAndLastLayerStayWhateverTheOffloadRatio) {
  // Two of eight layers stay at r = 1: a quarter.
  EXPECT_EQ(resident_tokens(1000_tok, 1.0, 8), 250);
  EXPECT_EQ(resident_tokens(1000_tok, 0.5, 8), 625);
  for (const std::int32_t layers : {1, 2}) {
    for (const double ratio : {0.0, 0.5, 1.0}) {
      EXPECT_EQ(resident_tokens(1001_tok, ratio, layers), 1001) << layers << " layers, r " << ratio;
    }
  }
  EXPECT_EQ(resident_tokens(0_tok, 0.5, 8), 0);
}

TEST(ResidentTokens, WithoutOffloadEveryTokenCountsExactly) {
  for (std::int32_t layers = 1; layers <= 130; ++layers) {
    for (const std::int64_t tokens : {1, 3, 4095, 4097, 2'097'153}) {
      EXPECT_EQ(resident_tokens(Tokens(tokens), 0, layers), static_cast<double>(tokens));
    }
  }
}

TEST(StepPlan, CanonicalOrderIsLongestFirstThenId) {
  std::vector<SequenceSpec> sequences = {
      {4, 5_tok, 0}, {9, 7_tok, 1}, {2, 5_tok, 5}, {3, 1_tok, 0}};
  sort_canonically(sequences);
  const std::vector<SequenceSpec> expected = {
      {9, 7_tok, 1}, {2, 5_tok, 5}, {4, 5_tok, 0}, {3, 1_tok, 0}};
  EXPECT_EQ(sequences, expected);
}

TEST(StepPlan, GapIsTheShareAboveTheLowerBound) {
  StepPlan plan;
  EXPECT_EQ(plan.gap(), 0) << "an empty plan is as fast as can be";
  plan.makespan = 12_ms;
  plan.lower_bound = 10_ms;
  EXPECT_DOUBLE_EQ(plan.gap(), 0.2);
  plan.lower_bound = 12_ms;
  EXPECT_EQ(plan.gap(), 0);
  plan.lower_bound = 0_ns;
  EXPECT_TRUE(std::isinf(plan.gap())) << "without a bound nothing is known";
}

TEST(StepPlan, MicroBatchTokensAreThoseOfItsPieces) {
  MicroBatch micro_batch;
  EXPECT_EQ(micro_batch.tokens(), 0_tok);
  micro_batch.pieces = {{0, kNoGroup, {0, 5}}, {1, 0, {3, 4}}, {1, 0, {9, 12}}};
  EXPECT_EQ(micro_batch.tokens(), 9_tok);
}

TEST(SortCanonically, ManySequencesOfAnyLengthAndIdOrderComeOutAsComparisonSortsThem) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const RandomStream random(seed, "many to sort");
    std::vector<SequenceSpec> sequences;
    for (std::uint64_t i = 0; i < 6000; ++i) {
      const auto most = static_cast<std::uint64_t>(random.below(3 * i, 20) == 0 ? 1 << 21 : 900);
      sequences.push_back(
          {.id = static_cast<std::int64_t>(seed % 2 == 0 ? i : random.below(3 * i + 2, 1 << 30)),
           .tokens = Tokens(1 + static_cast<std::int64_t>(random.below(3 * i + 1, most))),
           .num_targets = 0});
    }
    for (const std::int64_t edge : {16'383, 16'384, 16'385})
      sequences[static_cast<std::size_t>(edge - 16'000)].tokens = Tokens(edge);
    std::vector<SequenceSpec> expected = sequences;
    std::sort(expected.begin(), expected.end(), [](const SequenceSpec& a, const SequenceSpec& b) {
      return a.tokens != b.tokens ? a.tokens > b.tokens : a.id < b.id;
    });
    sort_canonically(sequences);
    EXPECT_EQ(sequences, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft
