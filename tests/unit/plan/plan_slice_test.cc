#include "plan/plan_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "plan/plan_codec.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/reseal.h"

namespace weft {
namespace {

StepPlan example_plan(std::uint64_t seed) {
  RandomPlanOptions options;
  options.seed = seed;
  options.num_ranks = 1 + static_cast<std::int32_t>(seed % 8);
  options.capacity = Tokens(100);
  options.sequences =
      random_sequences(seed, static_cast<std::int32_t>(seed % 25), 100 * options.num_ranks);
  options.weighting = seed % 2 == 0 ? LossWeighting::kToken : LossWeighting::kSample;
  options.allow_offload = seed % 3 == 0;
  StepPlan plan = random_plan(options);
  plan.step = 7;
  return plan;
}

// Undoes the slice's own numbering: what the rank's micro-batches say in the plan.
std::vector<MicroBatch> in_plan_numbers(const PlanSlice& slice, const StepPlan& plan) {
  std::vector<MicroBatch> micro_batches = slice.micro_batches;
  for (MicroBatch& micro_batch : micro_batches) {
    for (Piece& piece : micro_batch.pieces) {
      const SequenceSpec& sequence =
          slice.sequences.at(static_cast<std::size_t>(piece.sequence_idx));
      piece.sequence_idx = static_cast<std::int32_t>(
          std::find(plan.sequences.begin(), plan.sequences.end(), sequence) -
          plan.sequences.begin());
      if (piece.group_idx != kNoGroup) {
        piece.group_idx = slice.groups.at(static_cast<std::size_t>(piece.group_idx)).plan_group_idx;
      }
    }
  }
  return micro_batches;
}

TEST(PlanSlice, TheSlicesOfAllRanksTogetherAreThePlan) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const StepPlan plan = example_plan(seed);
    const Hash128 hash = plan_hash(plan);
    for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
      const PlanSlice slice = slice_plan(plan, hash, Rank(r));
      EXPECT_EQ(in_plan_numbers(slice, plan), plan.ranks[static_cast<std::size_t>(r)]);
      EXPECT_EQ(slice.plan_hash, hash);
      EXPECT_EQ(slice.step, 7);
      EXPECT_EQ(slice.rank, Rank(r));
      EXPECT_EQ(slice.num_ranks, plan.num_ranks);
      EXPECT_EQ(slice.weighting, plan.weighting);
      EXPECT_EQ(slice.total_weight, total_weight(plan.sequences, plan.weighting));
      std::vector<SequenceSpec> sorted = slice.sequences;
      sort_canonically(sorted);
      EXPECT_EQ(slice.sequences, sorted);
    }
  }
}

TEST(PlanSlice, EveryMemberExpectsWhatTheOthersSend) {
  int num_groups = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const StepPlan plan = example_plan(seed);
    std::vector<PlanSlice> slices;
    for (std::int32_t r = 0; r < plan.num_ranks; ++r)
      slices.push_back(slice_plan(plan, {}, Rank(r)));
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      ++num_groups;
      const std::vector<Rank>& ring = plan.groups[g].ranks;
      for (std::size_t position = 0; position < ring.size(); ++position) {
        const PlanSlice& slice = slices[static_cast<std::size_t>(ring[position].value())];
        const auto own =
            std::find_if(slice.groups.begin(), slice.groups.end(), [&](const GroupSlice& group) {
              return group.plan_group_idx == static_cast<std::int32_t>(g);
            });
        ASSERT_NE(own, slice.groups.end());
        EXPECT_EQ(own->position, static_cast<std::int32_t>(position));
        EXPECT_EQ(own->ranks, ring);
        EXPECT_EQ(own->degree(), static_cast<std::int32_t>(ring.size()));
        EXPECT_EQ(slice.sequences.at(static_cast<std::size_t>(own->sequence_idx)),
                  plan.sequences[static_cast<std::size_t>(plan.groups[g].sequence_idx)]);
        // What this member's rows really hold, and what every member believes that it holds.
        std::vector<TokenRange> rows;
        for (const MicroBatch& micro_batch : slice.micro_batches) {
          for (const Piece& piece : micro_batch.pieces) {
            if (piece.group_idx == own - slice.groups.begin()) rows.push_back(piece.range);
          }
        }
        EXPECT_FALSE(rows.empty());
        for (const Rank member : ring) {
          const auto& groups = slices[static_cast<std::size_t>(member.value())].groups;
          const auto theirs =
              std::find_if(groups.begin(), groups.end(), [&](const GroupSlice& group) {
                return group.plan_group_idx == static_cast<std::int32_t>(g);
              });
          ASSERT_NE(theirs, groups.end());
          EXPECT_EQ(theirs->member_ranges.at(position), rows)
              << "as rank " << member.value() << " sees it";
        }
      }
    }
  }
  EXPECT_GT(num_groups, 100);
}

TEST(PlanSlice, GroupsKeepThePlansOrder) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const StepPlan plan = example_plan(seed);
    for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
      const PlanSlice slice = slice_plan(plan, {}, Rank(r));
      EXPECT_TRUE(std::is_sorted(slice.groups.begin(), slice.groups.end(),
                                 [](const GroupSlice& a, const GroupSlice& b) {
                                   return a.plan_group_idx < b.plan_group_idx;
                                 }));
    }
  }
}

TEST(PlanSlice, AnIdleRankStillKnowsTheStepsWeightAndHash) {
  StepPlan plan;
  plan.num_ranks = 2;
  plan.num_slots = 1;
  plan.capacity = 10_tok;
  plan.sequences = {{4, 6_tok, 5}};
  plan.ranks = {{MicroBatch{0, 0, {{0, kNoGroup, {0, 6}}}}}, {}};
  const PlanSlice slice = slice_plan(plan, plan_hash(plan), Rank(1));
  EXPECT_TRUE(slice.micro_batches.empty() && slice.groups.empty() && slice.sequences.empty());
  EXPECT_EQ(slice.total_weight, 5);
  EXPECT_EQ(slice.plan_hash, plan_hash(plan));
  EXPECT_EQ(decode_slice(encode_slice(slice), "idle"), slice);
}

TEST(PlanSlice, ARankOutsideThePlanHasNone) {
  const StepPlan plan = example_plan(3);
  EXPECT_THROW(slice_plan(plan, {}, Rank(-1)), InternalError);
  EXPECT_THROW(slice_plan(plan, {}, Rank(plan.num_ranks)), InternalError);
}

TEST(PlanSlice, IsReadBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const StepPlan plan = example_plan(seed);
    for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
      const PlanSlice slice = slice_plan(plan, plan_hash(plan), Rank(r));
      EXPECT_EQ(decode_slice(encode_slice(slice), "memory"), slice)
          << "seed " << seed << ", rank " << r;
    }
  }
}

PlanSlice slice_with_group() {
  PlanSlice slice;
  slice.rank = Rank(2);
  slice.num_ranks = 4;
  slice.sequences = {{8, 6_tok, 5}};
  slice.groups = {{3, 0, 1, {Rank(0), Rank(2)}, {{{0, 3}}, {{3, 6}}}}};
  slice.micro_batches = {MicroBatch{5, 0, {{0, 0, {3, 6}}}}};
  return slice;
}

template <class Damage>
std::string refusal(const Damage& damage) {
  PlanSlice slice = slice_with_group();
  damage(slice);
  try {
    decode_slice(encode_slice(slice), "rank 0");
    return "accepted";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(PlanSlice, IndicesThatPointOutsideAreRefused) {
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_EQ(refusal([](PlanSlice&) {}), "accepted");
  EXPECT_THAT(refusal([](PlanSlice& s) { s.rank = Rank(4); }),
              AllOf(HasSubstr("rank 0: damaged plan slice"), HasSubstr("rank is 4")));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.num_ranks = -1; }), HasSubstr("rank is 2"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.groups[0].sequence_idx = 1; }),
              HasSubstr("group's sequence_idx is 1"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.groups[0].position = 2; }), HasSubstr("position is 2"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.groups[0].position = 0; }),
              HasSubstr("expected rank 2"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.groups[0].member_ranges.pop_back(); }),
              HasSubstr("ranges of 1 members"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.micro_batches[0].pieces[0].sequence_idx = -1; }),
              HasSubstr("piece's sequence_idx is -1"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.micro_batches[0].pieces[0].group_idx = 1; }),
              HasSubstr("piece's group_idx is 1"));
}

TEST(PlanSlice, RangesOutsideTheirSequenceAreRefused) {
  using testing::HasSubstr;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  for (const TokenRange range :
       {TokenRange{-1, 3}, {3, 3}, {4, 3}, {3, 7}, {6, 7}, {-kFar, kFar}}) {
    EXPECT_THAT(refusal([&](PlanSlice& s) { s.micro_batches[0].pieces[0].range = range; }),
                HasSubstr("a piece's range is ["))
        << range.begin << " " << range.end;
    EXPECT_THAT(refusal([&](PlanSlice& s) { s.groups[0].member_ranges[0][0] = range; }),
                HasSubstr("a member's range is ["))
        << range.begin << " " << range.end;
  }
  EXPECT_THAT(refusal([](PlanSlice& s) { s.sequences[0].tokens = 5_tok; }), HasSubstr("range"));
  EXPECT_THAT(refusal([](PlanSlice& s) { s.weighting = static_cast<LossWeighting>(2); }),
              HasSubstr("loss weighting is 2"));
}

TEST(PlanSlice, APlanIsNotASliceAndASliceIsNotAPlan) {
  EXPECT_THROW(decode_slice(encode_plan(StepPlan{}), "x"), UserError);
  EXPECT_THROW(decode_plan(encode_slice(slice_with_group()), "x"), UserError);
}

TEST(PlanSlice, DamagedBytesAreReadOrRefusedButNeverTrusted) {
  const StepPlan plan = example_plan(7 + 8 * 2);
  const std::vector<std::byte> whole = encode_slice(slice_plan(plan, plan_hash(plan), Rank(1)));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    if (size >= kPayloadAt) reseal(bytes);
    EXPECT_THROW(decode_slice(bytes, "x"), UserError) << size << " bytes";
  }
  const RandomStream random(1, "slice damage");
  int num_read = 0, num_refused = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = whole;
    const std::size_t offset = kPayloadAt + random.below(2 * i, whole.size() - kPayloadAt);
    bytes[offset] ^= static_cast<std::byte>(1 + random.below(2 * i + 1, 255));
    reseal(bytes);
    try {
      const PlanSlice slice = decode_slice(bytes, "x");
      ++num_read;
      for (const MicroBatch& micro_batch : slice.micro_batches) {
        for (const Piece& piece : micro_batch.pieces)
          slice.sequences.at(static_cast<std::size_t>(piece.sequence_idx));
      }
    } catch (const UserError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_read, 100);
  EXPECT_GT(num_refused, 100);
}

}  // namespace
}  // namespace weft
