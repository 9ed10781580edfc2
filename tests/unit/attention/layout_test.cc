#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "attention/attention_layout.h"
#include "base/error.h"

namespace weft {
namespace {

// Rank 1 of a plan: sequence 0 shared with others in plan group 5, sequence 1 in group 2, sequence
// 2 whole.
PlanSlice make_slice() {
  PlanSlice slice;
  slice.sequences = {{10, 20_tok, 20}, {11, 9_tok, 9}, {12, 4_tok, 4}};
  slice.groups = {
      {.plan_group_idx = 5,
       .sequence_idx = 0,
       .position = 0,
       .ranks = {Rank(1), Rank(0)},
       .member_ranges = {{{0, 5}, {15, 20}}, {{5, 15}}}},
      {.plan_group_idx = 2,
       .sequence_idx = 1,
       .position = 1,
       .ranks = {Rank(2), Rank(1)},
       .member_ranges = {{{0, 8}}, {{8, 9}}}},
  };
  return slice;
}

MicroBatch make_micro_batch() {
  return {.slot_idx = 3,
          .pieces = {{0, 0, {0, 5}}, {2, kNoGroup, {0, 4}}, {0, 0, {15, 20}}, {1, 1, {8, 9}}}};
}

TEST(AttentionLayout, RowsAreThePiecesInMicroBatchOrderAndRingsRunInPlanOrder) {
  const PlanSlice slice = make_slice();
  const AttentionLayout layout = make_attention_layout(slice, make_micro_batch());
  EXPECT_EQ(layout.num_rows, 15);
  EXPECT_EQ(layout.slot_idx, 3);
  ASSERT_EQ(layout.whole.size(), 1U);
  EXPECT_EQ(layout.whole[0].row, 5);
  EXPECT_EQ(layout.whole[0].range, (TokenRange{0, 4}));
  ASSERT_EQ(layout.shared.size(), 2U);
  EXPECT_EQ(layout.shared[0].group, &slice.groups[1]);
  ASSERT_EQ(layout.shared[0].pieces.size(), 1U);
  EXPECT_EQ(layout.shared[0].pieces[0].row, 14);
  EXPECT_EQ(layout.shared[1].group, &slice.groups[0]);
  ASSERT_EQ(layout.shared[1].pieces.size(), 2U);
  EXPECT_EQ(layout.shared[1].pieces[0].row, 0);
  EXPECT_EQ(layout.shared[1].pieces[1].row, 9);
  EXPECT_EQ(layout.shared[1].pieces[1].range, (TokenRange{15, 20}));
}

void expect_refused(const PlanSlice& slice, const MicroBatch& micro_batch, const char* words) {
  try {
    make_attention_layout(slice, micro_batch);
    FAIL() << "must be refused: " << words;
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(AttentionLayout, MicroBatchThatContradictsItsGroupIsRefused) {
  const PlanSlice slice = make_slice();
  MicroBatch swapped = make_micro_batch();
  std::swap(swapped.pieces[0], swapped.pieces[2]);
  expect_refused(slice, swapped, "differ from the 2 ranges");
  MicroBatch missing = make_micro_batch();
  missing.pieces.erase(missing.pieces.begin() + 2);
  expect_refused(slice, missing, "the micro-batch's 1 pieces of group 5");
}

TEST(AttentionLayout, PartOfASequenceWithoutAGroupIsRefused) {
  MicroBatch cut = make_micro_batch();
  cut.pieces[1].range = {1, 4};
  expect_refused(make_slice(), cut, "must hold all of it");
}

TEST(AttentionLayout, IndicesOutsideTheSliceAreRefused) {
  for (const std::int32_t index : {-1, 3}) {
    MicroBatch damaged = make_micro_batch();
    damaged.pieces[1].sequence_idx = index;
    expect_refused(make_slice(), damaged, "sequence index");
  }
  for (const std::int32_t index : {-2, 2}) {
    MicroBatch damaged = make_micro_batch();
    damaged.pieces[0].group_idx = index;
    expect_refused(make_slice(), damaged, "group index");
  }
}

// The plan_group_idx of each ring's sequences.
std::vector<std::vector<std::int32_t>> rings_of_groups(const std::vector<GroupSlice>& groups) {
  AttentionLayout layout;
  for (const GroupSlice& group : groups) layout.shared.push_back({&group, {}});
  std::vector<std::vector<std::int32_t>> rings;
  for (const auto ring : rings_of(layout)) {
    rings.emplace_back();
    for (const SharedSequence& shared : ring) rings.back().push_back(shared.group->plan_group_idx);
  }
  return rings;
}

TEST(AttentionLayout, NeighboursInThePlanWithEqualRanksAreOneRing) {
  const auto group = [](std::int32_t plan_group_idx, std::vector<Rank> ranks) {
    return GroupSlice{
        .plan_group_idx = plan_group_idx, .ranks = std::move(ranks), .member_ranges = {}};
  };
  const std::vector<Rank> pair{Rank(0), Rank(1)}, turned{Rank(1), Rank(0)},
      three{Rank(0), Rank(1), Rank(2)};
  using Rings = std::vector<std::vector<std::int32_t>>;
  EXPECT_EQ(rings_of_groups({}), Rings{});
  EXPECT_EQ(rings_of_groups({group(4, pair)}), (Rings{{4}}));
  EXPECT_EQ(rings_of_groups({group(4, pair), group(5, pair), group(6, pair)}), (Rings{{4, 5, 6}}));
  EXPECT_EQ(rings_of_groups({group(4, pair), group(6, pair), group(7, pair)}),
            (Rings{{4}, {6, 7}}));
  EXPECT_EQ(rings_of_groups({group(0, pair), group(1, turned), group(2, turned), group(3, pair)}),
            (Rings{{0}, {1, 2}, {3}}));
  EXPECT_EQ(rings_of_groups({group(0, pair), group(1, three)}), (Rings{{0}, {1}}));
}

TEST(AttentionLayout, MicroBatchOfNoPiecesHasNoRows) {
  const AttentionLayout layout = make_attention_layout(make_slice(), {});
  EXPECT_EQ(layout.num_rows, 0);
  EXPECT_TRUE(layout.whole.empty());
  EXPECT_TRUE(layout.shared.empty());
}

}  // namespace
}  // namespace weft
