// Plans that no test wrote by hand: the deadlock in every disguise, random reordering, random
// bytes, many ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/plan_oracle.h"
#include "tests/unit/plan/reseal.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string refusal_of(const StepPlan& plan) {
  try {
    validate(plan);
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

// Rank 0 runs groups 0 and 1 in one micro-batch, layer by layer; rank 1 runs them in two. At layer
// 1 of group 0 rank 1 waits for rank 0, which waits for rank 1 at layer 0 of group 1.
TEST(Validate, RefusesTheTwoRankDeadlockWhateverSlotsItsMicroBatchesClaim) {
  StepPlan plan;
  plan.num_ranks = 2;
  plan.capacity = 10_tok;
  plan.sequences = {{0, 4_tok, 4}, {1, 4_tok, 4}};
  plan.groups = {{0, 0, {Rank(0), Rank(1)}}, {1, 0, {Rank(0), Rank(1)}}};
  const auto pieces_of = [](std::int32_t group, std::int64_t begin) {
    return Piece{group, group, {begin, begin + 2}};
  };
  plan.ranks = {{MicroBatch{0, 0, {pieces_of(0, 0), pieces_of(1, 0)}}},
                {MicroBatch{0, 0, {pieces_of(0, 2)}}, MicroBatch{0, 0, {pieces_of(1, 2)}}}};
  ASSERT_EQ(flaw_when_run(plan), "deadlock");

  for (const bool swapped : {false, true}) {
    if (swapped) std::swap(plan.ranks[1][0], plan.ranks[1][1]);
    for (int slots = 0; slots < 3 * 3 * 3 * 3 * 3; ++slots) {
      plan.groups[0].slot_idx = slots % 3;
      plan.groups[1].slot_idx = slots / 3 % 3;
      plan.ranks[0][0].slot_idx = slots / 9 % 3;
      plan.ranks[1][0].slot_idx = slots / 27 % 3;
      plan.ranks[1][1].slot_idx = slots / 81;
      for (plan.num_slots = 0; plan.num_slots <= 3; ++plan.num_slots) {
        EXPECT_NE(refusal_of(plan), "accepted") << "slots " << slots << " of " << plan.num_slots;
      }
    }
  }

  // Both in one micro-batch, or both in two, run.
  StepPlan together = plan;
  together.num_slots = 1;
  for (Group& group : together.groups) group.slot_idx = 0;
  together.ranks[0][0].slot_idx = 0;
  together.ranks[1] = {MicroBatch{0, 0, {pieces_of(0, 2), pieces_of(1, 2)}}};
  EXPECT_EQ(refusal_of(together), "accepted");
  EXPECT_EQ(flaw_when_run(together), "");
}

RandomPlanOptions random_options(std::uint64_t seed) {
  RandomPlanOptions options;
  options.seed = seed;
  options.num_ranks = 2 + static_cast<std::int32_t>(seed % 6);
  options.capacity = Tokens(40);
  options.sequences = random_sequences(seed, 12, 40 * options.num_ranks);
  options.allow_offload = seed % 4 == 0;
  return options;
}

TEST(Validate, WhatItAcceptsRunsToItsEnd) {
  // Micro-batches move within their rank, groups swap numbers, slots swap names: many such plans
  // still look right.
  int num_accepted = 0, num_deadlocks = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    StepPlan plan = random_plan(random_options(seed));
    ASSERT_EQ(flaw_when_run(plan), "");
    const RandomStream random(seed, "reorder");
    std::uint64_t next = 0;
    const auto pick = [&](std::size_t size) { return random.below(next++, size); };
    for (std::uint64_t moves = 1 + pick(3); moves > 0; --moves) {
      auto& micro_batches = plan.ranks[pick(plan.ranks.size())];
      if (micro_batches.empty()) continue;
      std::swap(micro_batches[pick(micro_batches.size())],
                micro_batches[pick(micro_batches.size())]);
      auto& pieces = micro_batches[pick(micro_batches.size())].pieces;
      if (pick(2) == 0) std::swap(pieces[pick(pieces.size())], pieces[pick(pieces.size())]);
    }
    const bool accepted = refusal_of(plan) == "accepted";
    const std::string flaw = flaw_when_run(plan);
    if (accepted) {
      EXPECT_EQ(flaw, "");
    }
    num_accepted += accepted;
    num_deadlocks += flaw == "deadlock";
  }
  EXPECT_GT(num_accepted, 50);
  EXPECT_GT(num_deadlocks, 50);
}

TEST(Validate, ARandomByteOfThePlanIsRefusedOrHarmless) {
  int num_accepted = 0, num_refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<std::byte> whole = encode_plan(random_plan(random_options(seed)));
    const RandomStream random(seed, "damage");
    for (std::uint64_t i = 0; i < 200; ++i) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", damage " << i);
      std::vector<std::byte> bytes = whole;
      const std::size_t offset = kPayloadAt + random.below(2 * i, whole.size() - kPayloadAt);
      bytes[offset] ^= static_cast<std::byte>(1 + random.below(2 * i + 1, 255));
      reseal(bytes);
      try {
        const StepPlan plan = decode_plan(bytes, "damaged");
        validate(plan);
        ++num_accepted;
        EXPECT_EQ(flaw_when_run(plan), "");
        EXPECT_EQ(encode_plan(plan), bytes) << "the form is canonical";
      } catch (const UserError&) {
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_accepted, 100);
  EXPECT_GT(num_refused, 1000);
}

TEST(Validate, HandlesALargeClusterAndFindsTheOneFlawInIt) {
  // 16,384 ranks in rings of 8, 12 slots: 196,608 pieces.
  constexpr std::int32_t kRanks = 16'384, kDegree = 8, kRounds = 12;
  StepPlan plan;
  plan.num_ranks = kRanks;
  plan.capacity = 1_tok;
  plan.ranks.resize(kRanks);
  for (std::int32_t round = 0; round < kRounds; ++round) {
    for (std::int32_t first = 0; first < kRanks; first += kDegree) {
      const auto idx = static_cast<std::int32_t>(plan.groups.size());
      plan.sequences.push_back({idx, Tokens(kDegree), 1});
      Group group{idx, plan.num_slots++, {}};
      for (std::int32_t i = 0; i < kDegree; ++i) {
        // Odd rounds are shifted by half a ring, so that all rings hang together.
        const std::int32_t rank = (first + i + round % 2 * kDegree / 2) % kRanks;
        group.ranks.emplace_back(rank);
        plan.ranks[static_cast<std::size_t>(rank)].push_back(
            {group.slot_idx, 0, {{idx, idx, {i, i + 1}}}});
      }
      plan.groups.push_back(group);
    }
  }
  ASSERT_EQ(refusal_of(plan), "accepted");
  StepPlan damaged = plan;
  auto& last = damaged.ranks.back();
  std::swap(last[kRounds - 2], last[kRounds - 1]);
  EXPECT_THAT(refusal_of(damaged),
              testing::AllOf(HasSubstr("cycle of slots"), HasSubstr("rank 16383")));
  damaged = plan;
  damaged.ranks.back().back().pieces.back().range = {6, 7};
  EXPECT_THAT(refusal_of(damaged),
              testing::AnyOf(HasSubstr("token twice"), HasSubstr("token missing")));
}

}  // namespace
}  // namespace weft
