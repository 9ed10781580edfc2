#include "tests/support/random_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"

namespace weft {
namespace {

TEST(RandomPlan, IsValidForAnyRanksAndLengths) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomPlanOptions options;
    options.seed = seed;
    options.num_ranks = 1 + static_cast<std::int32_t>(seed % 9);
    options.capacity = Tokens(64);
    options.sequences =
        random_sequences(seed, static_cast<std::int32_t>(seed % 31), 64 * options.num_ranks);
    options.allow_unequal_cuts = seed % 3 != 0;
    options.allow_offload = seed % 5 == 0;
    options.num_layers = 1 + static_cast<std::int32_t>(seed % 4);
    ASSERT_NO_THROW(validate(random_plan(options)));
  }
}

TEST(RandomPlan, IsAFunctionOfItsOptions) {
  RandomPlanOptions options;
  options.sequences = random_sequences(1, 20, 500);
  const StepPlan plan = random_plan(options);
  EXPECT_EQ(plan, random_plan(options));
  std::reverse(options.sequences.begin(), options.sequences.end());
  EXPECT_EQ(plan, random_plan(options)) << "a plan's input is a set";
  options.seed = 1;
  EXPECT_NE(plan_hash(plan), plan_hash(random_plan(options)));
}

TEST(RandomPlan, ShowsEveryKindOfShape) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    RandomPlanOptions options;
    options.seed = seed;
    options.num_ranks = 7;
    options.capacity = Tokens(100);
    options.sequences = random_sequences(seed, 14, 300);
    const StepPlan plan = random_plan(options);
    for (const Group& group : plan.groups) {
      seen.insert("degree " + std::to_string(group.ranks.size()));
      if (!std::is_sorted(group.ranks.begin(), group.ranks.end())) seen.insert("permuted ring");
    }
    std::vector<std::set<std::int32_t>> groups_of_slot(static_cast<std::size_t>(plan.num_slots));
    for (const Group& group : plan.groups) {
      groups_of_slot[static_cast<std::size_t>(group.slot_idx)].insert(group.sequence_idx);
    }
    for (const auto& groups : groups_of_slot) {
      if (groups.size() > 2) seen.insert("slot of 3 groups");
    }
    for (const auto& micro_batches : plan.ranks) {
      if (micro_batches.empty()) seen.insert("idle rank");
      if (!std::is_sorted(micro_batches.begin(), micro_batches.end(),
                          [](const auto& a, const auto& b) { return a.slot_idx < b.slot_idx; })) {
        seen.insert("slots not in number order");
      }
      for (const MicroBatch& micro_batch : micro_batches) {
        std::set<std::int32_t> groups;
        std::size_t pieces_of_group = 0;
        for (std::size_t p = 0; p < micro_batch.pieces.size(); ++p) {
          const Piece& piece = micro_batch.pieces[p];
          const bool continues = p > 0 && piece.group_idx != kNoGroup &&
                                 piece.group_idx == micro_batch.pieces[p - 1].group_idx;
          pieces_of_group = continues ? pieces_of_group + 1 : 1;
          if (pieces_of_group >= 3) seen.insert("3 pieces of a member");
          if (continues && piece.range < micro_batch.pieces[p - 1].range)
            seen.insert("descending pieces");
          if (piece.group_idx != kNoGroup && piece.range.size() == 1)
            seen.insert("piece of one token");
          groups.insert(piece.group_idx);
        }
        if (groups.size() > 2 && groups.contains(kNoGroup)) seen.insert("whole beside two groups");
      }
    }
  }
  for (const std::string shape :
       {"degree 2", "degree 3", "degree 4", "degree 5", "degree 6", "degree 7", "permuted ring",
        "slot of 3 groups", "idle rank", "slots not in number order", "3 pieces of a member",
        "descending pieces", "piece of one token", "whole beside two groups"}) {
    EXPECT_TRUE(seen.contains(shape)) << shape;
  }
}

TEST(RandomPlan, CutsEquallyWhenAsked) {
  RandomPlanOptions options;
  options.allow_unequal_cuts = false;
  options.num_ranks = 5;
  options.sequences = random_sequences(3, 30, 1000);
  const StepPlan plan = random_plan(options);
  ASSERT_FALSE(plan.groups.empty());
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& micro_batch : micro_batches) {
      for (const Piece& piece : micro_batch.pieces) {
        if (piece.group_idx == kNoGroup) continue;
        const auto degree = static_cast<std::int32_t>(
            plan.groups[static_cast<std::size_t>(piece.group_idx)].ranks.size());
        bool is_part = false;
        for (std::int32_t position = 0; position < degree; ++position) {
          const auto ranges =
              zigzag_ranges(plan.sequences[static_cast<std::size_t>(piece.sequence_idx)].tokens,
                            degree, position);
          is_part |= std::find(ranges.begin(), ranges.end(), piece.range) != ranges.end();
        }
        EXPECT_TRUE(is_part);
      }
    }
  }
}

TEST(RandomPlan, RefusesASequenceThatNoNumberOfItsRanksCanHold) {
  RandomPlanOptions options;
  options.num_ranks = 3;
  options.capacity = 10_tok;
  options.sequences = {{1, 30_tok, 5}};
  EXPECT_NO_THROW(validate(random_plan(options)));
  options.sequences = {{1, 31_tok, 5}};
  EXPECT_THROW(random_plan(options), UserError);
}

TEST(RandomSequences, HoldEveryMagnitudeAndTheEdges) {
  std::set<std::int64_t> lengths, ids;
  bool none = false, one = false, all = false;
  for (const SequenceSpec& sequence : random_sequences(5, 500, 1000)) {
    EXPECT_GE(sequence.tokens, 1_tok);
    EXPECT_LE(sequence.tokens, 1000_tok);
    EXPECT_GE(sequence.num_targets, 0);
    EXPECT_LE(sequence.num_targets, sequence.tokens.value());
    lengths.insert(sequence.tokens.value());
    ids.insert(sequence.id);
    none |= sequence.num_targets == 0;
    one |= sequence.num_targets == 1;
    all |= sequence.num_targets == sequence.tokens.value();
  }
  EXPECT_EQ(ids.size(), 500U);
  EXPECT_TRUE(none && one && all);
  for (const std::int64_t edge : {1, 2, 1000}) EXPECT_TRUE(lengths.contains(edge)) << edge;
  EXPECT_TRUE(random_sequences(5, 0, 1000).empty());
}

}  // namespace
}  // namespace weft
