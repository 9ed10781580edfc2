// The parts of the fast path for many sequences: runs, their deal to islands, and how they fill
// ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "plan/deal_order.h"
#include "plan/islands.h"
#include "plan/sequence_time.h"
#include "plan/whole_filler.h"
#include "tests/unit/plan/length_mixes.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::request_of;
using testing::sequences_of;

StepPlan header_of(const PlanRequest& request) {
  StepPlan plan;
  plan.sequences = sorted_canonically(request.sequences);
  plan.num_ranks = request.cluster.num_ranks;
  plan.capacity = request.options.capacity;
  return plan;
}

void count(WholeRun run, std::vector<int>& held) {
  for (std::int32_t i = 0; i < run.count; ++i) ++held[static_cast<std::size_t>(run.first + i)];
}

TEST(WholeRuns, AreTheSequencesOfOneLength) {
  const auto sequences = sequences_of({9, 9, 9, 7, 4, 4});
  const auto shape = [&](std::size_t first) {
    std::vector<std::pair<int, int>> pairs;
    for (const WholeRun run : whole_runs(sequences, first))
      pairs.emplace_back(run.first, run.count);
    return pairs;
  };
  using Shape = std::vector<std::pair<int, int>>;
  EXPECT_EQ(shape(0), (Shape{{0, 3}, {3, 1}, {4, 2}}));
  EXPECT_EQ(shape(1), (Shape{{1, 2}, {3, 1}, {4, 2}}));
  EXPECT_EQ(shape(5), (Shape{{5, 1}}));
  EXPECT_EQ(shape(6), Shape{});
}

TEST(Islands, EachSequenceGoesToOneIslandAndAllHaveLikeTimeARank) {
  const auto drawn =
      testing::draw_lengths(testing::kGithubShares, Tokens(40 << 20), Tokens(8192), 6);
  for (const std::int32_t num_ranks : {2048, 4096, 6150, 10'247}) {
    const PlanRequest request = request_of("hdp", drawn, num_ranks, 8192);
    const StepPlan plan = header_of(request);
    const std::size_t first_whole = 3;
    const std::vector<StripInput> islands =
        deal_to_islands(request, plan, {}, first_whole, num_ranks);
    EXPECT_EQ(islands.size(), static_cast<std::size_t>(num_ranks / 2048));
    std::vector<int> held(plan.sequences.size());
    std::fill_n(held.begin(), first_whole, 1);
    double least = std::numeric_limits<double>::infinity();
    double most = 0;
    for (const StripInput& island : islands) {
      double ns = 0;
      Tokens previous = plan.capacity;
      for (const WholeRun run : island.whole) {
        count(run, held);
        const Tokens tokens = plan.sequences[static_cast<std::size_t>(run.first)].tokens;
        EXPECT_LE(tokens, previous);
        previous = tokens;
        ns += static_cast<double>(sequence_time(request.cost, tokens, 1, 1.0).value()) * run.count;
      }
      least = std::min(least, ns / island.num_ranks);
      most = std::max(most, ns / island.num_ranks);
    }
    EXPECT_EQ(held, std::vector<int>(held.size(), 1)) << num_ranks;
    EXPECT_LE(most, 1.005 * least) << num_ranks;
  }
}

TEST(Islands, FewerSequencesThanIslandsAreDealtOneEach) {
  const PlanRequest request = request_of("hdp", sequences_of({50, 50, 50}), 10'240, 8192);
  const StepPlan plan = header_of(request);
  std::size_t with_one = 0;
  for (const StripInput& island : deal_to_islands(request, plan, {}, 0, 10'240)) {
    ASSERT_LE(island.whole.size(), 1u);
    if (island.whole.empty()) continue;
    EXPECT_EQ(island.whole[0].count, 1);
    ++with_one;
  }
  EXPECT_EQ(with_one, 3u);
}

TEST(WholePool, HandsOutTheLongestThatFitsAndCountsWhatIsLeft) {
  const PlanRequest request = request_of("hdp", sequences_of({90, 90, 90, 40, 7}), 1, 100);
  const std::vector<WholeRun> runs = whole_runs(request.sequences, 0);
  WholePool pool(request.sequences, runs, request.cost, Tokens(100));
  constexpr std::int64_t kLong = std::int64_t{1} << 60;
  EXPECT_EQ(pool.num_left(), 5u);
  EXPECT_EQ(pool.left_tokens(), Tokens(317));
  std::size_t length = pool.longest_within(Tokens(100), kLong);
  EXPECT_EQ(pool.tokens(length), Tokens(90));
  EXPECT_EQ(pool.num_of(length), 3);
  const WholeRun two = pool.take(length, 2);
  EXPECT_EQ(two.first, 0);
  EXPECT_EQ(two.count, 2);
  EXPECT_EQ(pool.take(length, 1).first, 2);
  length = pool.longest_within(Tokens(100), kLong);
  EXPECT_EQ(pool.tokens(length), Tokens(40));
  EXPECT_EQ(pool.tokens(pool.longest_within(Tokens(39), kLong)), Tokens(7));
  EXPECT_EQ(pool.tokens(pool.longest_within(Tokens(100), pool.ns(length) - 1)), Tokens(7));
  EXPECT_EQ(pool.longest_within(Tokens(6), kLong), WholePool::kNone);
  EXPECT_EQ(pool.num_left(), 2u);
  EXPECT_EQ(pool.left_tokens(), Tokens(47));
}

// Whole sequences of a request over ranks that end at `ends`.
struct Filled {
  StripInput input;
  StripSchedule schedule;
};

Filled level(const PlanRequest& request, const std::vector<std::int64_t>& ends) {
  Filled filled;
  filled.input.sequences = request.sequences;
  filled.input.whole = whole_runs(request.sequences, 0);
  filled.input.num_ranks = request.cluster.num_ranks;
  WholeFiller filler(filled.input, request.cost, request.cluster, request.options.capacity,
                     filled.schedule);
  std::vector<RankEnd> rank_ends;
  for (std::size_t r = 0; r < ends.size(); ++r)
    rank_ends.push_back({ends[r], static_cast<std::int32_t>(r)});
  filler.level(rank_ends);
  return filled;
}

void expect_sound(const PlanRequest& request, const StripSchedule& schedule) {
  std::vector<int> held(request.sequences.size());
  for (const StripPack& pack : schedule.packs) {
    Tokens tokens;
    std::int32_t num = 0;
    for (std::int32_t at = pack.first; at >= 0;) {
      const PackRun& run = schedule.runs[static_cast<std::size_t>(at)];
      count(run.sequences, held);
      EXPECT_EQ(run.tokens,
                request.sequences[static_cast<std::size_t>(run.sequences.first)].tokens);
      tokens += run.tokens * run.sequences.count;
      num += run.sequences.count;
      at = run.next;
    }
    EXPECT_GE(num, 1);
    EXPECT_EQ(num, pack.num_sequences);
    EXPECT_EQ(tokens + pack.room, request.options.capacity);
    EXPECT_GE(pack.room, Tokens(0));
  }
  EXPECT_EQ(held, std::vector<int>(held.size(), 1));
}

TEST(WholeFiller, WithoutSequencesNothingRises) {
  const PlanRequest request = request_of("hdp", {}, 3, 100);
  const Filled filled = level(request, {5, 9, 7});
  EXPECT_TRUE(filled.schedule.packs.empty());
  EXPECT_EQ(filled.schedule.makespan, 9);
}

TEST(WholeFiller, RanksThatEndUnequallyRiseToOneLevelFromManySequencesOrFew) {
  const RandomStream random(9, "ends");
  std::uint64_t draw = 0;
  for (const std::int32_t num_ranks : {1, 2, 3, 7, 64}) {
    for (const std::int64_t tokens_a_rank : {9'000, 60'000, 400'000}) {
      auto drawn = testing::draw_lengths(testing::kGithubShares, Tokens(tokens_a_rank * num_ranks),
                                         Tokens(2048), 3);
      PlanRequest request = request_of("hdp", std::move(drawn), num_ranks, 8192);
      sort_canonically(request.sequences);
      const std::int64_t longest =
          sequence_time(request.cost, request.sequences.front().tokens, 1, 1.0).value();
      std::vector<std::int64_t> ends;
      for (std::int32_t r = 0; r < num_ranks; ++r)
        ends.push_back(
            static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(longest))));
      const Filled filled = level(request, ends);
      expect_sound(request, filled.schedule);
      // By hand: what each rank runs after its end.
      const WholePool times(request.sequences, filled.input.whole, request.cost, Tokens(8192));
      std::vector<std::int64_t> own = ends;
      for (const StripPack& pack : filled.schedule.packs) {
        std::int64_t& end = own[static_cast<std::size_t>(pack.rank)];
        end += times.fixed_ns();
        for (std::int32_t at = pack.first; at >= 0;) {
          const PackRun& run = filled.schedule.runs[static_cast<std::size_t>(at)];
          CostModel without = request.cost;
          without.fixed_ns = 0;
          end += sequence_time(without, run.tokens, 1, 1.0).value() * run.sequences.count;
          at = run.next;
        }
      }
      const auto [least, most] = std::minmax_element(own.begin(), own.end());
      EXPECT_EQ(filled.schedule.makespan, *most);
      EXPECT_LE(*most - *least, longest) << num_ranks << " ranks, " << tokens_a_rank << " tokens";
    }
  }
}

// One sequence of `tokens` on `degree` ranks, the others whole.
struct Beside {
  StripInput input;
  StripSchedule schedule;
  GangTask task;
  std::int64_t longer = 0;
};

Beside fill_beside(const PlanRequest& request, std::int32_t degree,
                   std::int64_t ns = std::int64_t{1} << 60) {
  Beside result;
  result.input.sequences = request.sequences;
  result.input.whole = whole_runs(request.sequences, 1);
  result.input.num_ranks = request.cluster.num_ranks;
  result.task = {.sequence_idx = 0, .degree = degree, .duration = 5};
  WholeFiller filler(result.input, request.cost, request.cluster, request.options.capacity,
                     result.schedule);
  result.longer = filler.fill_beside(result.task, ns);
  return result;
}

TEST(WholeFiller, MembersOfAGroupAreFilledAlike) {
  auto drawn = testing::draw_lengths(testing::kGithubShares, Tokens(400'000), Tokens(2048), 5);
  drawn.push_back({.id = 1 << 20, .tokens = Tokens(20'000), .num_targets = 19'999});
  PlanRequest request = request_of("hdp", std::move(drawn), 8, 8192);
  sort_canonically(request.sequences);
  const Beside beside = fill_beside(request, 3);
  ASSERT_EQ(beside.task.first_beside, 0);
  ASSERT_EQ(beside.schedule.beside.size(), 3u);
  EXPECT_TRUE(beside.schedule.packs.empty());
  const WholePool times(request.sequences, beside.input.whole, request.cost, Tokens(8192));
  CostModel without = request.cost;
  without.fixed_ns = 0;
  std::vector<std::int64_t> ns;
  for (const StripPack& pack : beside.schedule.beside) {
    Tokens tokens;
    ns.push_back(0);
    for (std::int32_t at = pack.first; at >= 0;
         at = beside.schedule.runs[static_cast<std::size_t>(at)].next) {
      const PackRun& run = beside.schedule.runs[static_cast<std::size_t>(at)];
      tokens += run.tokens * run.sequences.count;
      ns.back() += sequence_time(without, run.tokens, 1, 1.0).value() * run.sequences.count;
    }
    EXPECT_EQ(tokens + pack.room, Tokens(8192 - 6667));  // 20,000 / 3, rounded up
    EXPECT_LT(pack.room, Tokens(8192 / 128));
  }
  const auto [least, most] = std::minmax_element(ns.begin(), ns.end());
  EXPECT_EQ(beside.longer, *most);
  EXPECT_LT(*most, 1.05 * static_cast<double>(*least));
}

TEST(WholeFiller, NothingGoesBesideAFullGroupNorWhenEndsWouldHaveTooLittle) {
  auto drawn = testing::draw_lengths(testing::kGithubShares, Tokens(400'000), Tokens(2048), 5);
  drawn.push_back({.id = 1 << 20, .tokens = Tokens(3 * 8192 - 300), .num_targets = 3 * 8192 - 301});
  PlanRequest full = request_of("hdp", std::move(drawn), 8, 8192);
  sort_canonically(full.sequences);
  EXPECT_EQ(fill_beside(full, 3).task.first_beside, -1);
  EXPECT_EQ(fill_beside(full, 3).longer, 0);
  PlanRequest few = request_of("hdp", sequences_of({20'000, 900, 800, 700, 600}), 8, 8192);
  EXPECT_EQ(fill_beside(few, 3).task.first_beside, -1);
  EXPECT_EQ(fill_beside(few, 3).longer, 0);
}

TEST(WholeFiller, WhatLiesBesideAGroupTakesNoLongerThanItMay) {
  auto drawn = testing::draw_lengths(testing::kGithubShares, Tokens(400'000), Tokens(2048), 5);
  drawn.push_back({.id = 1 << 20, .tokens = Tokens(20'000), .num_targets = 19'999});
  PlanRequest request = request_of("hdp", std::move(drawn), 8, 8192);
  sort_canonically(request.sequences);
  const std::int64_t all = fill_beside(request, 3).longer;
  const std::int64_t half = fill_beside(request, 3, all / 2).longer;
  EXPECT_LE(half, all / 2);
  EXPECT_GT(half, all / 4);
  EXPECT_EQ(fill_beside(request, 3, 0).longer, 0);
}

// The group that ends the step gets nothing beside it.
TEST(WholeFiller, AStepAsLongAsItsLongestSequenceGetsNoLonger) {
  for (const std::int64_t longest : {20'000, 40'000}) {
    std::vector<std::int64_t> lengths(1200, 300);
    lengths.push_back(longest);
    const PlanRequest request = request_of("hdp", sequences_of(lengths), 128, 2048);
    EXPECT_LT(make_plan(request).gap(), 0.005) << longest;
  }
}

TEST(WholeFiller, FewSequencesARankAreDealtAsWellAsPacksAre) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const RandomStream random(seed, "few a rank");
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < 1500; ++i) {
      const std::int64_t least = random.below(2 * i, 3) == 0 ? 500 : 1;
      lengths.push_back(least +
                        static_cast<std::int64_t>(random.below(2 * i + 1, least == 1 ? 200 : 500)));
    }
    for (const std::int32_t num_ranks : {150, 200, 400}) {
      PlanRequest request = request_of("hdp", sequences_of(lengths), num_ranks, 1000);
      request.cost.fixed_ns = 100 * request.cost.linear_ns_per_token;
      const Nanoseconds hdp = make_plan(request).makespan;
      request.options.strategy = "hdp-algorithm2";
      EXPECT_LE(ratio(hdp, make_plan(request).makespan), 1.005)
          << "seed " << seed << ", " << num_ranks << " ranks";
    }
  }
}

TEST(DealOrder, ASequenceGoesWhereItEndsFirstWithTheFixedCostItNeeds) {
  // One has room for 100 tokens, one for 400, one has no open micro-batch.
  DealOrder order({{.end = 10, .fixed_ns = 1000, .room = Tokens(100), .capacity = Tokens(1000)},
                   {.end = 20, .fixed_ns = 1000, .room = Tokens(400), .capacity = Tokens(1000)},
                   {.end = 0, .fixed_ns = 1000, .room = Tokens(0), .capacity = Tokens(300)}});
  EXPECT_EQ(order.choose(Tokens(1001)), DealOrder::kNone);
  EXPECT_EQ(order.choose(Tokens(500)), 0u);  // 1010 against 1020; the third holds too little
  EXPECT_EQ(order.choose(Tokens(400)), 1u);  // has room
  order.update(1, 60, Tokens(200));
  EXPECT_EQ(order.choose(Tokens(300)), 2u);  // 1000 against 1010 and 1060
  EXPECT_TRUE(order.needs_micro_batch(2, Tokens(300)));
  order.update(2, 1200, Tokens(0));
  EXPECT_EQ(order.choose(Tokens(150)), 1u);
  // What had no room for a longer one has it for this.
  EXPECT_EQ(order.choose(Tokens(90)), 0u);
  EXPECT_FALSE(order.needs_micro_batch(0, Tokens(90)));
  EXPECT_THROW(order.choose(Tokens(91)), InternalError);
}

TEST(DealOrder, AgreesWithLookingAtAllRanks) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random(seed, "deal");
    std::uint64_t draw = 0;
    const auto any = [&](std::uint64_t below) {
      return static_cast<std::int64_t>(random.below(draw++, below));
    };
    std::vector<DealOrder::RankState> ranks(1 + random.below(draw++, 7));
    for (auto& rank : ranks)
      rank = {.end = any(50),
              .fixed_ns = any(40),
              .room = Tokens(any(60)),
              .capacity = Tokens(40 + any(60))};
    DealOrder order(ranks);
    for (std::int64_t tokens = 110; tokens > 0; tokens -= any(3)) {
      std::size_t best = DealOrder::kNone;
      std::int64_t least = 0;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const bool has_room = ranks[i].room >= Tokens(tokens);
        if (!has_room && ranks[i].capacity < Tokens(tokens)) continue;
        const std::int64_t key = ranks[i].end + (has_room ? 0 : ranks[i].fixed_ns);
        if (best == DealOrder::kNone || key < least) {
          best = i;
          least = key;
        }
      }
      const std::size_t chosen = order.choose(Tokens(tokens));
      ASSERT_EQ(chosen, best) << "seed " << seed << ", " << tokens << " tokens";
      if (best == DealOrder::kNone) continue;
      auto& rank = ranks[best];
      rank.end = least + any(20);
      rank.room = (rank.room >= Tokens(tokens) ? rank.room : rank.capacity) - Tokens(tokens);
      order.update(best, rank.end, rank.room);
    }
  }
}

TEST(WholeFiller, LargeFixedCostsAreNotPaidForMicroBatchesThatAreHalfEmpty) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    auto drawn =
        testing::draw_lengths(testing::kGithubShares, Tokens(8 << 20), Tokens(256 << 10), seed);
    PlanRequest request = request_of("hdp", std::move(drawn), 128, 8192);
    request.cost.fixed_ns *= 10;
    const StepPlan plan = make_plan(request);
    std::int64_t num_micro_batches = 0;
    bool is_mixed = false;
    for (const auto& micro_batches : plan.ranks) {
      num_micro_batches += static_cast<std::int64_t>(micro_batches.size());
      for (const MicroBatch& m : micro_batches) {
        const auto is_whole = [](const Piece& piece) { return piece.group_idx == kNoGroup; };
        const auto whole = std::count_if(m.pieces.begin(), m.pieces.end(), is_whole);
        is_mixed = is_mixed || (whole > 0 && whole < std::ssize(m.pieces));
      }
    }
    EXPECT_TRUE(is_mixed) << "seed " << seed;
    EXPECT_LT(plan.gap(), 0.018) << "seed " << seed;
    // Each rank may end with one that is not full.
    EXPECT_LE(num_micro_batches, (8 << 20) / 8192 + 128) << "seed " << seed;
  }
}

TEST(WholeFiller, ALengthOfManySequencesIsTakenAtOnce) {
  const PlanRequest request =
      request_of("hdp", sequences_of(std::vector<std::int64_t>(6400, 100)), 4, 1000);
  const Filled filled = level(request, {0, 0, 0, 0});
  expect_sound(request, filled.schedule);
  EXPECT_LE(filled.schedule.packs.size(), 640u + 4u);
  EXPECT_LE(filled.schedule.runs.size(), 2 * filled.schedule.packs.size());
}

}  // namespace
}  // namespace weft
