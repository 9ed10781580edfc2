#include "plan/slice_memory.h"

#include <gtest/gtest.h>

#include "plan/plan_codec.h"
#include "plan/planner.h"
#include "plan/validate.h"

namespace weft {
namespace {

// Sequences of 10, 8 and 6 tokens over ranks 0 and 1 in one ring, one of 5 on rank 0 alone; then a
// second slot with one of 4 over ranks 1 and 0.
StepPlan two_slots() {
  StepPlan plan;
  plan.num_ranks = 2;
  plan.capacity = Tokens(100);
  plan.num_slots = 2;
  plan.sequences = {{.id = 0, .tokens = Tokens(10), .num_targets = 9},
                    {.id = 1, .tokens = Tokens(8), .num_targets = 0},
                    {.id = 2, .tokens = Tokens(6), .num_targets = 2},
                    {.id = 3, .tokens = Tokens(5), .num_targets = 4},
                    {.id = 4, .tokens = Tokens(4), .num_targets = 3}};
  const MicroBatch first{.slot_idx = 0, .offload_ratio = 0, .pieces = {}};
  const MicroBatch second{.slot_idx = 1, .offload_ratio = 0, .pieces = {}};
  plan.ranks = {{first, second}, {first, second}};
  const auto share = [&](std::int32_t sequence, std::int32_t slot, std::vector<Rank> ranks) {
    const auto group = static_cast<std::int32_t>(plan.groups.size());
    for (std::int32_t i = 0; i < 2; ++i) {
      const auto rank = static_cast<std::size_t>(ranks[static_cast<std::size_t>(i)].value());
      const Tokens tokens = plan.sequences[static_cast<std::size_t>(sequence)].tokens;
      for (const TokenRange range : zigzag_ranges(tokens, 2, i)) {
        plan.ranks[rank][static_cast<std::size_t>(slot)].pieces.push_back(
            {.sequence_idx = sequence, .group_idx = group, .range = range});
      }
    }
    plan.groups.push_back({.sequence_idx = sequence, .slot_idx = slot, .ranks = std::move(ranks)});
  };
  share(0, 0, {Rank(0), Rank(1)});
  share(1, 0, {Rank(0), Rank(1)});
  plan.ranks[0][0].pieces.push_back({.sequence_idx = 3, .group_idx = kNoGroup, .range = {0, 5}});
  share(2, 0, {Rank(0), Rank(1)});
  share(4, 1, {Rank(1), Rank(0)});
  validate(plan);
  return plan;
}

TEST(SliceMemory, CountsTokensTargetsAndTheLargestMemberOfARing) {
  const StepPlan plan = two_slots();
  const auto sizes = micro_batch_sizes(slice_plan(plan, plan_hash(plan), Rank(0)));
  ASSERT_EQ(sizes.size(), 2U);
  // Parts of 10 tokens: 3 3 2 2, so rank 0 has 5; of 8 it has 4, of 6 (2 2 1 1) 3.
  EXPECT_EQ(sizes[0].tokens, 5 + 4 + 3 + 5);
  // Which tokens have targets is open: as many as can be, piece by piece (3 + 2, 0, 2 + 1, 4).
  EXPECT_EQ(sizes[0].targets, 5 + 0 + 3 + 4);
  EXPECT_EQ(sizes[0].ring_rows, 12);
  EXPECT_EQ(sizes[1].tokens, 2);
  EXPECT_EQ(sizes[1].ring_rows, 2);
}

TEST(SliceMemory, RingsOfOtherRanksDoNotAddUp) {
  StepPlan plan = two_slots();
  plan.num_ranks = 3;
  plan.ranks.push_back({{.slot_idx = 0, .offload_ratio = 0, .pieces = {}}});
  // The second sequence moves from rank 1 to rank 2: three rings of one sequence each.
  auto& pieces = plan.ranks[1][0].pieces;
  for (auto piece = pieces.begin(); piece != pieces.end();) {
    if (piece->group_idx == 1) {
      plan.ranks[2][0].pieces.push_back(*piece);
      piece = pieces.erase(piece);
    } else {
      ++piece;
    }
  }
  plan.groups[1].ranks = {Rank(0), Rank(2)};
  validate(plan);
  const auto sizes = micro_batch_sizes(slice_plan(plan, plan_hash(plan), Rank(0)));
  EXPECT_EQ(sizes[0].ring_rows, 5);
}

TEST(SliceMemory, TheLargestMicroBatchDecides) {
  const StepPlan plan = two_slots();
  MemoryShape shape;
  shape.num_parameters = 10;
  shape.num_layers = 3;
  const PlanSlice slice = slice_plan(plan, plan_hash(plan), Rank(0));
  const auto sizes = micro_batch_sizes(slice);
  EXPECT_EQ(predict_peak(shape, slice).total(), predict_peak(shape, sizes[0]).total());
  EXPECT_GT(predict_peak(shape, sizes[0]).total(), predict_peak(shape, sizes[1]).total());
  PlanSlice empty = slice;
  empty.micro_batches.clear();
  EXPECT_EQ(predict_peak(shape, empty).total(), predict_peak(shape, MicroBatchSize()).total());
}

TEST(SliceMemory, ResidentLayersAreResidentTokensPerTokenTimesLayers) {
  for (const std::int32_t layers : {1, 2, 3, 8}) {
    for (const double ratio : {0.0, 0.25, 0.5, 1.0}) {
      EXPECT_DOUBLE_EQ(resident_layers(layers, ratio) * 1000 / layers,
                       resident_tokens(Tokens(1000), ratio, layers));
    }
  }
}

// No plan of a capacity may need more than what the capacity was chosen by.
TEST(SliceMemory, NoPlanOfACapacityExceedsItsLargestMicroBatch) {
  MemoryShape shape{.layer = {.hidden_size = 64,
                              .num_heads = 4,
                              .num_kv_heads = 4,
                              .head_dim = 16,
                              .intermediate_size = 64},
                    .num_layers = 2,
                    .vocab_size = 50,
                    .num_parameters = 1000};
  for (const std::string& strategy : strategy_names()) {
    PlanRequest request;
    request.cluster = uniform_cluster(4, 4);
    request.options.strategy = strategy;
    request.options.capacity = Tokens(128);
    shape.num_ranks = 4;
    const Bytes largest =
        predict_peak(shape, largest_micro_batch(shape, request.options.capacity)).total();
    for (std::int64_t id = 0; id < 60; ++id) {
      const std::int64_t tokens = id % 7 == 0 ? 500 - id : 1 + 13 * id % 128;
      request.sequences.push_back({.id = id, .tokens = Tokens(tokens), .num_targets = tokens - 1});
    }
    const StepPlan plan = make_plan(request);
    for (std::int32_t r = 0; r < 4; ++r) {
      EXPECT_LE(predict_peak(shape, slice_plan(plan, plan_hash(plan), Rank(r))).total(), largest)
          << strategy;
    }
  }
}

}  // namespace
}  // namespace weft
