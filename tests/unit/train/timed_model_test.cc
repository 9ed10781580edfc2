#include "train/timed_model.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "train/profile.h"

namespace weft {
namespace {

TimedModelOptions tiny(std::int32_t threads = 1) {
  return {.model = {.vocab_size = 50,
                    .hidden_size = 16,
                    .num_layers = 2,
                    .num_heads = 2,
                    .num_kv_heads = 1,
                    .head_dim = 8,
                    .intermediate_size = 24},
          .threads = threads};
}

TEST(TimedModel, ASampleHasTheShapeOfWhatRan) {
  TimedModel model(tiny());
  std::vector<ProfiledBatch> batches = {{.num_sequences = 3, .tokens_each = Tokens(10)}};
  for (const std::int32_t degree : {2, 3, 5})
    batches.push_back({.tokens_each = Tokens(12), .degree = degree});
  model.time(batches, 0);
  const ProfiledBatch& pack = batches.front();
  EXPECT_EQ(pack.median.tokens, Tokens(30));
  EXPECT_EQ(pack.median.work, 3 * 55);
  EXPECT_EQ(pack.median.ring_steps, 0);
  for (const ProfiledBatch& shared : std::span(batches).subspan(1)) {
    EXPECT_EQ(shared.median.tokens, Tokens(12));
    // A zigzag cut into even parts gives all ranks as many pairs.
    EXPECT_NEAR(static_cast<double>(shared.median.work), 12 * (12 * shared.degree + 1) / 2.0, 12);
    EXPECT_EQ(shared.median.ring_steps, shared.degree - 1);
  }
  for (const ProfiledBatch& batch : batches) {
    EXPECT_EQ(batch.runs.size(), 1U) << "once beside the warm-up";
    EXPECT_GT(batch.median.forward_s, 0);
    EXPECT_GT(batch.median.backward_s, 0);
  }
  EXPECT_GT(model.time_optimizer(pack), 0);
}

TEST(TimedModel, EachRunsOnceAtLeastAndNineTimesAtMost) {
  TimedModel model(tiny());
  std::vector<ProfiledBatch> batches = {{.tokens_each = Tokens(2)},
                                        {.tokens_each = Tokens(64), .degree = 8}};
  model.time(batches, 1e9);
  EXPECT_EQ(batches[0].runs.size(), 9U);
  EXPECT_EQ(batches[1].runs.size(), 9U);
  for (ProfiledBatch& batch : batches) batch.runs.clear();
  model.time(batches, 1e-9);
  EXPECT_EQ(batches[0].runs.size(), 1U);
  EXPECT_EQ(batches[1].runs.size(), 1U);
}

TEST(TimedModel, TheMedianIsThatOfTheRuns) {
  TimedModel model(tiny());
  std::vector<ProfiledBatch> batches = {{.tokens_each = Tokens(20)}};
  model.time(batches, 1e9);
  std::vector<double> forward_s, backward_s;
  for (const PassTimes& run : batches.front().runs) {
    forward_s.push_back(run.forward_s);
    backward_s.push_back(run.backward_s);
  }
  EXPECT_EQ(batches.front().median.forward_s, median(forward_s));
  EXPECT_EQ(batches.front().median.backward_s, median(backward_s));
}

TEST(TimedModel, ARunOfARingIsTheMeanOfItsRanksAndEachRankCountsForTheSpread) {
  TimedModel model(tiny());
  std::vector<ProfiledBatch> batches = {{.tokens_each = Tokens(20)},
                                        {.tokens_each = Tokens(32), .degree = 4}};
  model.time(batches, 1e-9);
  ASSERT_EQ(batches[0].rank_runs_s.size(), 1U);
  ASSERT_EQ(batches[1].rank_runs_s.size(), 4U);
  for (const ProfiledBatch& batch : batches) {
    const PassTimes& run = batch.runs.front();
    EXPECT_NEAR(run.forward_s + run.backward_s,
                std::accumulate(batch.rank_runs_s.begin(), batch.rank_runs_s.end(), 0.0) /
                    static_cast<double>(batch.degree),
                1e-9);
  }
}

TEST(TimedModel, RingsRunOnOneThreadOrNotAtAll) {
  TimedModel model(tiny(2));
  ProfiledBatch shared{.tokens_each = Tokens(12), .degree = 2};
  EXPECT_THROW(model.time({&shared, 1}, 0), InternalError);
}

TEST(ProfileShapes, HoldTwoCapacitiesAtMostAndRingsOnlyWhereTheyAreTimed) {
  for (const std::int64_t capacity : {1, 2, 63, 64, 65, 4096}) {
    for (const bool with_rings : {false, true}) {
      bool has_rings = false;
      for (const ProfiledBatch& shape : profile_shapes(Tokens(capacity), with_rings)) {
        EXPECT_GE(shape.tokens_each, Tokens(2));
        EXPECT_LE(shape.num_sequences * shape.tokens_each.value() * shape.degree, 2 * capacity);
        has_rings = has_rings || shape.degree > 1;
      }
      EXPECT_EQ(has_rings, with_rings && capacity > 1) << capacity;
    }
  }
}

}  // namespace
}  // namespace weft
