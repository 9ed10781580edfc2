#include "plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"
#include "plan/plan_codec.h"
#include "tests/unit/plan/plan_oracle.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kHugeIdx = std::numeric_limits<std::int32_t>::max();

// rank 0: [g0 and sequence 3 whole] [g2]
// rank 1: [g0 and g1] [sequence 4 whole]
// rank 2: [g1] [g2]
StepPlan valid_plan() {
  StepPlan plan;
  plan.strategy = "by hand";
  plan.num_ranks = 3;
  plan.capacity = 12_tok;
  plan.num_layers = 4;
  plan.sequences = {{10, 12_tok, 11}, {11, 9_tok, 0}, {12, 6_tok, 6}, {5, 4_tok, 3}, {6, 4_tok, 4}};
  plan.groups = {
      {0, 0, {Rank(1), Rank(0)}}, {1, 0, {Rank(1), Rank(2)}}, {2, 1, {Rank(2), Rank(0)}}};
  plan.num_slots = 3;
  plan.ranks = {
      {MicroBatch{0, 0, {{0, 0, {0, 3}}, {0, 0, {9, 12}}, {3, kNoGroup, {0, 4}}}},
       MicroBatch{1, 0, {{2, 2, {2, 5}}}}},
      {MicroBatch{0, 0, {{0, 0, {3, 9}}, {1, 1, {0, 2}}, {1, 1, {6, 9}}}},
       MicroBatch{2, 0, {{4, kNoGroup, {0, 4}}}}},
      {MicroBatch{0, 0, {{1, 1, {2, 6}}}}, MicroBatch{1, 0, {{2, 2, {0, 2}}, {2, 2, {5, 6}}}}},
  };
  plan.makespan = 9_us;
  plan.lower_bound = 8_us;
  return plan;
}

std::string refusal_of(const StepPlan& plan) {
  try {
    validate(plan);
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

// What validate says about the valid plan after `damage`.
template <class Damage>
std::string refusal(const Damage& damage) {
  StepPlan plan = valid_plan();
  damage(plan);
  return refusal_of(plan);
}

testing::Matcher<std::string> names(const std::string& kind) {
  return StartsWith("plan is damaged: " + kind + ": ");
}

TEST(Validate, AcceptsAWholePlanAndAnEmptyOne) {
  EXPECT_EQ(refusal_of(valid_plan()), "accepted");
  EXPECT_EQ(flaw_when_run(valid_plan()), "");
  StepPlan empty;
  empty.capacity = 1_tok;
  empty.ranks.resize(1);
  EXPECT_EQ(refusal_of(empty), "accepted") << "no sequences, an idle rank";
}

TEST(Validate, RefusesABadHeader) {
  const auto is_bad = names("bad header");
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_ranks = 4; }),
              AllOf(is_bad, HasSubstr("lists for 3 ranks")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_ranks = kHugeIdx; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_ranks = -1; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p = StepPlan{}, p.num_ranks = 0; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks.emplace_back(); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.capacity = 0_tok; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_layers = 0; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.step = -1; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.weighting = static_cast<LossWeighting>(2); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.lower_bound = Nanoseconds(-1); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.lower_bound = p.makespan + 1_ns; }), is_bad);
  EXPECT_EQ(refusal([](StepPlan& p) { p.lower_bound = p.makespan; }), "accepted");
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_slots = -1; }), is_bad);
}

TEST(Validate, ItsTwoPartsAreTheTimesAndAllElse) {
  StepPlan early = valid_plan();
  early.makespan = 7_us;
  EXPECT_NO_THROW(validate_work(early));
  EXPECT_THROW(validate_times(early), UserError);
  EXPECT_THAT(refusal_of(early), names("bad header"));
  StepPlan damaged = valid_plan();
  damaged.capacity = 1_tok;
  EXPECT_NO_THROW(validate_times(damaged));
  EXPECT_THROW(validate_work(damaged), UserError);
  EXPECT_THAT(refusal_of(damaged), names("over capacity"));
}

TEST(Validate, RefusesABadSequence) {
  const auto is_bad = names("bad sequence");
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[4].tokens = 0_tok; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[4].tokens = Tokens(-kHuge); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[0].tokens = Tokens(kHuge); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[0].tokens = Tokens(std::int64_t{1} << 32); }),
              is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[0].num_targets = 13; }),
              AllOf(is_bad, HasSubstr("13 targets")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[0].num_targets = -1; }), is_bad);
  EXPECT_EQ(refusal([](StepPlan& p) { p.sequences[0].num_targets = 12; }), "accepted");
}

TEST(Validate, RefusesSequencesOutOfOrder) {
  const auto is_bad = names("sequence order");
  EXPECT_THAT(refusal([](StepPlan& p) { std::swap(p.sequences[0], p.sequences[1]); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { std::swap(p.sequences[3], p.sequences[4]); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[4].id = 5; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences[0].id = 6; }), AllOf(is_bad, HasSubstr("id 6")))
      << "the same id at another length";
}

TEST(Validate, RefusesAnIndexOutOfRange) {
  const auto is_bad = names("index out of range");
  for (const std::int32_t idx : {-1, 5, kHugeIdx, -kHugeIdx}) {
    SCOPED_TRACE(idx);
    EXPECT_THAT(refusal([&](StepPlan& p) { p.groups[1].sequence_idx = idx; }),
                AllOf(is_bad, HasSubstr("group 1: sequence_idx is " + std::to_string(idx))));
    EXPECT_THAT(refusal([&](StepPlan& p) { p.groups[1].slot_idx = idx; }), is_bad);
    EXPECT_THAT(refusal([&](StepPlan& p) { p.groups[1].ranks[0] = Rank(idx); }), is_bad);
    EXPECT_THAT(refusal([&](StepPlan& p) { p.ranks[1][1].slot_idx = idx; }),
                AllOf(is_bad, HasSubstr("rank 1, micro-batch 1")));
    EXPECT_THAT(refusal([&](StepPlan& p) { p.ranks[1][1].pieces[0].sequence_idx = idx; }),
                AllOf(is_bad, HasSubstr("rank 1, micro-batch 1, piece 0")));
    if (idx == kNoGroup) continue;
    EXPECT_THAT(refusal([&](StepPlan& p) { p.ranks[1][0].pieces[0].group_idx = idx; }), is_bad);
  }
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {-1, 4}; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {0, 5}; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {-kHuge, kHuge}; }),
              is_bad);
}

TEST(Validate, RefusesATokenTwice) {
  const auto is_bad = names("token twice");
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[2][0].pieces[0].range.end = 7; }),
              AllOf(is_bad, HasSubstr("rank 2 holds [2, 7)"), HasSubstr("rank 1 holds [6, 9)")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][0].pieces[1].range = {0, 3}; }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][1].pieces.push_back({4, kNoGroup, {0, 4}}); }),
              is_bad)
      << "a whole sequence on two ranks";
}

TEST(Validate, RefusesATokenMissing) {
  const auto is_bad = names("token missing");
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[2][0].pieces[0].range.begin = 3; }),
              AllOf(is_bad, HasSubstr("[2, 3) of sequence 1")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][0].pieces[0].range.begin = 1; }), is_bad)
      << "first";
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][0].pieces[1].range.end = 11; }), is_bad)
      << "last";
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range.end = 3; }), is_bad)
      << "of a whole one";
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][0].pieces.pop_back(); }),
              AllOf(is_bad, HasSubstr("[0, 4) of sequence 3")))
      << "all of them";
  EXPECT_THAT(refusal([](StepPlan& p) { p.sequences.push_back({7, 4_tok, 0}); }), is_bad);
}

TEST(Validate, RefusesAMicroBatchOverCapacity) {
  EXPECT_THAT(refusal([](StepPlan& p) { p.capacity = 10_tok; }),
              AllOf(names("over capacity"), HasSubstr("rank 1, micro-batch 0"), HasSubstr("11")));
  EXPECT_EQ(refusal([](StepPlan& p) { p.capacity = 11_tok; }), "accepted");
}

TEST(Validate, CountsOnlyResidentTokensAgainstTheCapacity) {
  // 11 tokens, half of the two middle layers of four offloaded: 11 * 3 / 4 = 8.25 stay.
  const auto with = [](Tokens capacity, std::int32_t num_layers) {
    return refusal([&](StepPlan& p) {
      p.capacity = capacity;
      p.num_layers = num_layers;
      for (auto& micro_batches : p.ranks) {
        for (MicroBatch& micro_batch : micro_batches) micro_batch.offload_ratio = 0.5;
      }
    });
  };
  EXPECT_EQ(with(9_tok, 4), "accepted");
  EXPECT_THAT(with(8_tok, 4), AllOf(names("over capacity"), HasSubstr("8.25 of its 11 tokens")));
  EXPECT_THAT(with(9_tok, 2), names("over capacity")) << "two layers always stay";
}

TEST(Validate, RefusesAnOffloadRatioOutsideZeroToOne) {
  const auto with = [](double ratio) {
    return refusal([&](StepPlan& p) { p.ranks[2][1].offload_ratio = ratio; });
  };
  for (const double ratio : {-0.01, 1.01, -0.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), -1e300}) {
    EXPECT_THAT(with(ratio), AllOf(names("offload ratio"), HasSubstr("rank 2, micro-batch 1")))
        << ratio;
  }
  EXPECT_EQ(with(1), "accepted");
}

TEST(Validate, RefusesEmptyPiecesMicroBatchesAndSlots) {
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {2, 2}; }),
              names("empty piece"));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {4, 0}; }),
              names("empty piece"));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces[0].range = {kHuge, -kHuge}; }),
              names("empty piece"));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].pieces.clear(); }),
              names("empty micro-batch"));
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_slots = 4; }),
              AllOf(names("empty slot"), HasSubstr("slot 3")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.num_slots = kHugeIdx; }), names("empty slot"));
}

TEST(Validate, RefusesARankWithTwoMicroBatchesInOneSlot) {
  const auto is_bad = names("two micro-batches in one slot");
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[1][1].slot_idx = 0; }),
              AllOf(is_bad, HasSubstr("rank 1, micro-batch 1 is in slot 0")));
  EXPECT_THAT(refusal([](StepPlan& p) {
                // Group 1 in a micro-batch of its own, both in the groups' slot.
                auto& micro_batches = p.ranks[1];
                MicroBatch second = micro_batches[0];
                second.pieces.erase(second.pieces.begin());
                micro_batches[0].pieces.resize(1);
                micro_batches.insert(micro_batches.begin() + 1, second);
              }),
              is_bad);
}

TEST(Validate, RefusesWrongGroupMembers) {
  const auto is_bad = names("group members");
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[0].ranks.pop_back(); }),
              AllOf(is_bad, HasSubstr("has 1 ranks")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[0].ranks.clear(); }), is_bad);
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[0].ranks.push_back(Rank(1)); }),
              AllOf(is_bad, HasSubstr("lists rank 1 twice")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[0].ranks.push_back(Rank(2)); }),
              AllOf(is_bad, HasSubstr("rank 2 is in group 0, but holds no piece")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[0].ranks[1] = Rank(2); }),
              AllOf(is_bad, HasSubstr("the rank is not in the group")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[2].slot_idx = 0; }),
              AllOf(is_bad, HasSubstr("in slot 1, the group in slot 0")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[0][0].pieces[0].group_idx = 1; }),
              AllOf(is_bad, HasSubstr("the group shares sequence 1")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[2][1].slot_idx = 2; }), is_bad)
      << "one member's micro-batch lies in another slot";
}

TEST(Validate, RefusesASequenceInTwoGroups) {
  const auto is_bad = names("sequence in two groups");
  EXPECT_THAT(refusal([](StepPlan& p) { p.groups[2].sequence_idx = 1; }),
              AllOf(is_bad, HasSubstr("groups 1 and 2 both share sequence 1")));
  EXPECT_THAT(refusal([](StepPlan& p) { p.ranks[2][0].pieces[0].group_idx = kNoGroup; }),
              AllOf(is_bad, HasSubstr("group 1 shares it")));
  EXPECT_THAT(refusal([](StepPlan& p) {
                p.ranks[1][1].pieces[0].range = {0, 1};
                p.ranks[0][1].pieces.push_back({4, kNoGroup, {1, 4}});
              }),
              AllOf(is_bad, HasSubstr("has no group, but is split into 2 pieces")));
  EXPECT_THAT(refusal([](StepPlan& p) {
                p.ranks[1][1].pieces = {{4, kNoGroup, {0, 1}}, {4, kNoGroup, {1, 4}}};
              }),
              is_bad)
      << "also when one rank holds both";
}

TEST(Validate, RefusesGroupsOutOfOrder) {
  const auto is_bad = names("group order");
  EXPECT_THAT(refusal([](StepPlan& p) {
                auto& pieces = p.ranks[1][0].pieces;
                std::rotate(pieces.begin(), pieces.begin() + 1, pieces.end());
              }),
              AllOf(is_bad, HasSubstr("it comes after group 1")));
  EXPECT_THAT(refusal([](StepPlan& p) {
                auto& pieces = p.ranks[0][0].pieces;
                std::swap(pieces[1], pieces[2]);
              }),
              AllOf(is_bad, HasSubstr("do not lie together")));
  EXPECT_EQ(refusal([](StepPlan& p) {
              auto& pieces = p.ranks[0][0].pieces;
              std::swap(pieces[0], pieces[1]);
            }),
            "accepted")
      << "the pieces of one group may stand in any order";
  EXPECT_EQ(refusal([](StepPlan& p) {
              auto& pieces = p.ranks[0][0].pieces;
              std::rotate(pieces.begin(), pieces.begin() + 2, pieces.end());
            }),
            "accepted")
      << "a whole sequence may come first";
}

TEST(Validate, RefusesACycleOfSlotsAndNamesIt) {
  StepPlan plan = valid_plan();
  std::swap(plan.ranks[0][0], plan.ranks[0][1]);
  EXPECT_THAT(refusal_of(plan),
              AllOf(names("cycle of slots"), HasSubstr("slot 0 -(rank 2)-> slot 1"),
                    HasSubstr("slot 1 -(rank 0)-> slot 0")));
  EXPECT_EQ(flaw_when_run(plan), "deadlock");
  std::swap(plan.ranks[2][0], plan.ranks[2][1]);
  EXPECT_EQ(refusal_of(plan), "accepted") << "both ranks agree on the other order";
}

TEST(Validate, RefusesAPlanWithAnotherHash) {
  const StepPlan plan = valid_plan();
  EXPECT_NO_THROW(validate(plan, plan_hash(plan)));
  StepPlan other = plan;
  other.seed = 1;
  ASSERT_EQ(refusal_of(other), "accepted");
  try {
    validate(other, plan_hash(plan));
    FAIL() << "another plan was accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(names("wrong hash"), HasSubstr(plan_hash(plan).hex()),
                                    HasSubstr(plan_hash(other).hex())));
  }
}

}  // namespace
}  // namespace weft
