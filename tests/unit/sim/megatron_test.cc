#include "sim/megatron_example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "plan/validate.h"
#include "sim/megatron_lengths.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

// numpy.random.seed(0), NumPy 1.24.2:
// np.clip(np.random.lognormal(np.log(1024) - 1.5**2 / 2, 1.5, 5120), 128, 8192).astype(int)
TEST(MegatronLengths, AreThoseOfNumPy) {
  const std::vector<std::int64_t> lengths = megatron_lengths(5120);
  EXPECT_THAT(std::vector(lengths.begin(), lengths.begin() + 12),
              ElementsAre(4687, 605, 1443, 8192, 5474, 128, 1382, 264, 284, 615, 412, 2945));
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 4480655);
}

TEST(MegatronLengths, RingsReadInTurnsAndAreGatheredOneAfterTheOther) {
  const std::vector<std::int64_t> lengths = megatron_lengths(48);
  const std::vector<SequenceSpec> sequences = megatron_sequences(12, 4, 1);
  ASSERT_EQ(sequences.size(), 24u);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t length = lengths[24 + i % 8 * 3 + i / 8];
    EXPECT_EQ(sequences[i].id, static_cast<std::int64_t>(i));
    EXPECT_EQ(sequences[i].tokens.value(), (length + 7) / 8 * 8);
  }
}

PlanRequest request_of(const std::vector<std::int64_t>& lengths, std::int32_t num_ranks) {
  PlanRequest request = plan_request(megatron_scenario(num_ranks, {}),
                                     {.capacity = kMegatronCapacity, .max_context = Tokens(8192)});
  for (const std::int64_t length : lengths)
    request.sequences.push_back({.id = static_cast<std::int64_t>(request.sequences.size()),
                                 .tokens = Tokens(length),
                                 .num_targets = length - 1});
  return request;
}

// Lengths of the sequences of each slot's ring.
std::vector<std::multiset<std::int64_t>> packs_of(const StepPlan& plan) {
  std::vector<std::set<std::int32_t>> found(static_cast<std::size_t>(plan.num_slots));
  for (const std::vector<MicroBatch>& rank : plan.ranks) {
    for (const MicroBatch& micro_batch : rank) {
      for (const Piece& piece : micro_batch.pieces)
        found[static_cast<std::size_t>(micro_batch.slot_idx)].insert(piece.sequence_idx);
    }
  }
  std::vector<std::multiset<std::int64_t>> packs;
  for (const std::set<std::int32_t>& slot : found) {
    packs.emplace_back();
    for (const std::int32_t idx : slot)
      packs.back().insert(plan.sequences[static_cast<std::size_t>(idx)].tokens.value());
  }
  return packs;
}

TEST(MegatronStaticPlan, ClosesAPackWhereTheNextSequenceDoesNotFit) {
  const StepPlan plan = megatron_static_plan(request_of({4096, 4096, 8, 8192, 16, 24}, 4));
  EXPECT_THAT(packs_of(plan),
              ElementsAre(std::multiset<std::int64_t>{4096, 4096}, std::multiset<std::int64_t>{8},
                          std::multiset<std::int64_t>{8192}, std::multiset<std::int64_t>{16, 24}));
  for (const std::vector<MicroBatch>& rank : plan.ranks) EXPECT_EQ(rank.size(), 4u);
}

TEST(MegatronStaticPlan, LastSequencesLeaveTheirPacksUntilEveryRingHasAsMany) {
  // Three packs for two rings; the last pack of two gives one away.
  const StepPlan plan = megatron_static_plan(request_of({8, 16, 8192, 8184}, 8));
  EXPECT_THAT(packs_of(plan),
              ElementsAre(std::multiset<std::int64_t>{8}, std::multiset<std::int64_t>{8192},
                          std::multiset<std::int64_t>{8184}, std::multiset<std::int64_t>{16}));
  for (const std::vector<MicroBatch>& rank : plan.ranks) EXPECT_EQ(rank.size(), 2u);
  EXPECT_NO_THROW(validate(plan));
}

TEST(MegatronStaticPlan, SomeRingsRunLessWhereNoPackCanBeSplit) {
  const StepPlan plan = megatron_static_plan(request_of({8192, 8192, 8192}, 8));
  EXPECT_EQ(plan.num_slots, 3);
  EXPECT_EQ(plan.ranks.back().size(), 1u);
}

// 4 ranks are fitted; the others are predicted.
TEST(MegatronExample, SpeedupsOfDynamicContextParallelismAreWithin15PercentOfThePublished) {
  int num_ratios = 0;
  for (const PaperClaim& claim : predict_megatron()) {
    if (claim.name.find("pow2 over static") != std::string::npos) {
      ++num_ratios;
      EXPECT_NEAR(claim.error(), 0, 0.15) << claim.name;
    }
    if (claim.name.find("step, ms, 4 ranks") != std::string::npos) {
      EXPECT_NEAR(claim.error(), 0, 0.01) << claim.name;
    }
    if (claim.name.find("hdp over static") != std::string::npos) {
      EXPECT_GT(claim.predicted, 1.25) << claim.name;
    }
  }
  EXPECT_EQ(num_ratios, 5);
}

}  // namespace
}  // namespace weft
