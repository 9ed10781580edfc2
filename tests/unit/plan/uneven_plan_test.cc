// Ranks of unequal speed and memory: how a sequence is cut over them, the bound, and whole plans.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

#include "corpus/workload.h"
#include "cost/micro_batch_time.h"
#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/planner.h"
#include "plan/priced_bound.h"
#include "plan/rank_orders.h"
#include "plan/uneven_group.h"
#include "plan/uneven_placement.h"
#include "plan/validate.h"
#include "tests/support/random_plan.h"
#include "tests/unit/plan/planning_cases.h"

namespace weft {
namespace {

using testing::request_of;

void expect_cover(const UnevenCut& cut, std::span<const Member> members, std::int64_t tokens) {
  std::vector<TokenRange> ranges;
  ASSERT_EQ(cut.ranges.size(), members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t own = cut.ranges[i][0].size() + cut.ranges[i][1].size();
    EXPECT_GE(own, 1);
    EXPECT_LE(own, members[i].capacity);
    for (const TokenRange range : cut.ranges[i])
      if (!range.empty()) ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end());
  std::int64_t covered = 0;
  for (const TokenRange range : ranges) {
    EXPECT_EQ(range.begin, covered);
    covered = range.end;
  }
  EXPECT_EQ(covered, tokens);
}

TEST(UnevenCut, CoversTheSequenceWithinEveryMemory) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const RandomStream random(seed, "uneven cuts");
    std::vector<Member> members;
    std::int64_t held = 0;
    const std::uint64_t count = 2 + random.below(0, seed % 3 == 0 ? 40 : 5);
    for (std::uint64_t i = 0; i < count; ++i) {
      members.push_back({0.25 + random.uniform(3 * i + 1),
                         1 + static_cast<std::int64_t>(random.below(3 * i + 2, 1000))});
      held += members.back().capacity;
    }
    const auto least = static_cast<std::int64_t>(count);
    const std::int64_t tokens =
        seed % 4 == 0 ? held
                      : least + static_cast<std::int64_t>(random.below(
                                    1000, static_cast<std::uint64_t>(held - least + 1)));
    expect_cover(cut_unevenly(reference_cost_7b(), Tokens(tokens), members), members, tokens);
  }
}

// Full memories leave no choice of tokens, only of where they lie.
TEST(UnevenCut, RanksOfTwoSpeedsFilledToTheirMemoryEndTogether) {
  std::vector<Member> members;
  for (int i = 0; i < 20; ++i) members.push_back({i % 2 == 0 ? 0.75 : 1.0, 8192});
  const CostModel cost = reference_cost_7b();
  const std::int64_t tokens = 20 * 8192;
  const UnevenCut cut = cut_unevenly(cost, Tokens(tokens), members);
  expect_cover(cut, members, tokens);
  const double pairs = static_cast<double>(causal_work({0, tokens}));
  const double compute = cost.attention_ns_per_pair * pairs +
                         cost.linear_ns_per_token * static_cast<double>(tokens) +
                         cost.fixed_ns * 20;
  const double ideal = compute / (10 * 0.75 + 10 * 1.0);
  const double exchange = 19 * (cost.hop_fixed_ns + cost.hop_ns_per_token * 8192);
  // The slowest ranks are not to compute longer than the mean allows, exchange partly shown.
  const double slow = (cost.linear_ns_per_token * 8192 + cost.fixed_ns) / 0.75;
  EXPECT_LT(static_cast<double>(cut.time) / (cost.num_layers * (1 + cost.backward_ratio)),
            1.04 * std::max(ideal, slow + exchange + ideal / 20));
}

TEST(PriceOrder, WithAPriceOfMembersLargeRanksComeBeforeCheapSmallOnes) {
  // Alike in price and speed for each token, the second of half the size.
  const std::vector<Member> ranks{{1, 8000}, {0.5, 4000}, {0.9, 8000}};
  const std::vector<double> prices{1, 0.48, 0.98};
  PriceOrderKey key{.level = 8000, .speed_value = 0, .member_weight = 0, .begin = 0, .end = 3};
  EXPECT_EQ(price_order(ranks, prices, key), (std::vector<std::uint32_t>{1, 2, 0}));
  key.member_weight = 1;
  EXPECT_EQ(price_order(ranks, prices, key), (std::vector<std::uint32_t>{2, 0, 1}));
  key.speed_value = 1;  // nothing is exchange: speed decides
  EXPECT_EQ(price_order(ranks, prices, key), (std::vector<std::uint32_t>{1, 0, 2}));
}

// A giant on six ranks, then one on all eight: two ranks wait for it. A short one takes that time.
TEST(UnevenPlacement, AShorterSequenceRunsInFrontOfAGiantThatIsPlaced) {
  const CostModel cost = reference_cost_7b();
  const std::vector<Member> ranks(8, {.speed = 1, .capacity = 8192});
  UnevenPlacement placement(cost, ranks, std::vector<double>(8, 1.0),
                            {.time_ns = std::int64_t{1} << 50, .late_weight = 4, .gap_weight = 1});
  placement.place(0, Tokens(6 * 8192));
  placement.place(1, Tokens(8 * 8192));
  placement.place(2, Tokens(2 * 8192));
  const std::vector<StripGroup> groups = placement.take_groups();
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(groups[2].sequence_idx, 1) << "the giant starts last";
  std::vector<std::int32_t> used(8);
  for (std::size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(groups[g].start, 0);
    for (const RankInterval& interval : groups[g].ranks)
      ++used[static_cast<std::size_t>(interval.begin)];
  }
  EXPECT_EQ(used, std::vector<std::int32_t>(8, 1));
  // What is left of the time in front of the giant.
  ASSERT_EQ(placement.gaps().size(), 2);
  for (const RankGap& gap : placement.gaps()) {
    EXPECT_EQ(gap.before_group, 2);
    EXPECT_GT(gap.length, 0);
    EXPECT_LT(gap.length, groups[2].start);
  }
  for (const RankEnd& end : placement.ends()) EXPECT_GT(end.end, groups[2].start);
}

// The time in front is a little too short: the exact cut must end in it.
TEST(UnevenPlacement, GroupsNeverOverlapOnARank) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const RandomStream random(seed, "uneven placement");
    const CostModel cost = reference_cost_7b();
    std::vector<Member> ranks;
    std::vector<double> prices;
    std::int64_t all = 0;
    for (std::uint64_t r = 0; r < 2 + seed % 15; ++r) {
      ranks.push_back(
          {0.5 + random.uniform(2 * r),
           seed % 4 == 0 ? 6000 : 3000 + static_cast<std::int64_t>(random.below(2 * r + 1, 5000))});
      prices.push_back(ranks.back().speed);
      all += ranks.back().capacity;
    }
    UnevenPlacement placement(cost, ranks, prices, {.time_ns = 1, .late_weight = 4});
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < 30; ++i)
      lengths.push_back(2 + static_cast<std::int64_t>(
                                random.below(100 + i, static_cast<std::uint64_t>(all - 1))));
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    for (std::size_t i = 0; i < lengths.size(); ++i)
      placement.place(static_cast<std::int32_t>(i), Tokens(lengths[i]));
    std::vector<std::int64_t> ends(ranks.size());
    for (const StripGroup& group : placement.take_groups()) {
      std::vector<Member> members;
      for (const RankInterval& one : group.ranks)
        members.push_back(ranks[static_cast<std::size_t>(one.begin)]);
      const Tokens tokens(lengths[static_cast<std::size_t>(group.sequence_idx)]);
      const std::int64_t time = cut_unevenly(cost, tokens, members).time;
      for (const RankInterval& one : group.ranks) {
        std::int64_t& end = ends[static_cast<std::size_t>(one.begin)];
        EXPECT_GE(group.start, end);
        end = group.start + time;
      }
    }
    for (const RankEnd& end : placement.ends())
      EXPECT_EQ(end.end, ends[static_cast<std::size_t>(end.rank)]);
  }
}

TEST(PricedBound, TheLeastVolumeOfAGroupIsThatOfTheBestOfAllSubsets) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomStream random(seed, "group volumes");
    std::vector<double> memories;
    for (std::uint64_t r = 0; r < 2 + random.below(0, 7); ++r)
      memories.push_back(1 + static_cast<double>(random.below(r + 1, 20)));
    std::sort(memories.begin(), memories.end(), std::greater<>());
    const double all = std::accumulate(memories.begin(), memories.end(), 0.0);
    const double tokens =
        1 + static_cast<double>(random.below(100, static_cast<std::uint64_t>(all)));
    double least = std::numeric_limits<double>::infinity();
    for (std::uint32_t subset = 1; subset < 1U << memories.size(); ++subset) {
      double held = 0;
      double members = 0;
      for (std::size_t r = 0; r < memories.size(); ++r) {
        if ((subset >> r & 1) == 0) continue;
        held += memories[r];
        ++members;
      }
      if (held < tokens) continue;
      double low = 0;  // the level at which the members hold the tokens
      double high = memories.front();
      for (int i = 0; i < 60; ++i) {
        const double level = (low + high) / 2;
        double sum = 0;
        for (std::size_t r = 0; r < memories.size(); ++r)
          sum += (subset >> r & 1) != 0 ? std::min(memories[r], level) : 0;
        (sum < tokens ? low : high) = level;
      }
      least = std::min(least, held * members * high);
    }
    EXPECT_NEAR(least_group_volume(memories, tokens), least, 1e-6 * least) << "seed " << seed;
  }
}

TEST(PricedBound, IsNeverAboveAnyPlanForRanksOfUnequalSpeedAndMemory) {
  int num_binding = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomStream random(seed, "unequal bound");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 9);
    const std::int64_t capacity = 64;
    // Half of the capacity is what the random plan holds anywhere.
    ClusterSpec cluster = uniform_cluster(num_ranks, 8);
    for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(num_ranks); ++r) {
      cluster.speed.push_back(0.3 + random.uniform(2 * r));
      if (seed % 3 != 0) cluster.memory.push_back(0.5 + 0.5 * random.uniform(2 * r + 1));
    }
    const StepPlan plan = random_plan({.num_ranks = num_ranks,
                                       .sequences = random_sequences(seed, 12, 32 * num_ranks),
                                       .capacity = Tokens(capacity / 2),
                                       .seed = seed,
                                       .allow_unequal_cuts = seed % 2 == 0});
    CostModel cost = testing::hand_cost();
    cost.hop_ns_per_token *= seed % 5 == 0 ? 100 : 20;
    cost.attention_ns_per_pair *= seed % 7 == 0 ? 0.01 : 1;
    const LowerBound bound = lower_bound(plan.sequences, cost, cluster, Tokens(capacity));
    EXPECT_LE(bound.best(), evaluate(plan, cost, cluster).makespan) << "seed " << seed;
    num_binding += bound.priced == bound.best() ? 1 : 0;
    if (!cluster.memory.empty()) continue;
    const LowerBound tight = lower_bound(plan.sequences, cost, cluster, Tokens(capacity / 2));
    EXPECT_LE(tight.best(), evaluate(plan, cost, cluster).makespan) << "seed " << seed;
    num_binding += tight.priced == tight.best() ? 1 : 0;
  }
  EXPECT_GT(num_binding, 4) << "the bound under test hardly ever mattered";
}

CostModel scaled_cost(const RandomStream& random) {
  CostModel cost = reference_cost_7b();
  constexpr std::array<double, 5> kScales{0.1, 0.5, 1, 3, 20};
  cost.attention_ns_per_pair *= kScales[random.below(0, 5)];
  cost.linear_ns_per_token *= kScales[random.below(1, 5)];
  cost.fixed_ns *= kScales[random.below(2, 5)];
  cost.hop_ns_per_token *= kScales[random.below(3, 5)];
  cost.hop_fixed_ns *= kScales[random.below(4, 5)];
  return cost;
}

ClusterSpec unequal_cluster(const RandomStream& random, std::int32_t num_ranks) {
  ClusterSpec cluster = uniform_cluster(num_ranks, 8);
  const bool is_even = random.below(100, 3) == 0;
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    const auto draw = static_cast<std::uint64_t>(2 * r);
    cluster.speed.push_back(0.4 + 0.6 * random.uniform(200 + draw));
    if (!is_even) cluster.memory.push_back(0.3 + 0.7 * random.uniform(201 + draw));
  }
  return cluster;
}

// One sequence has one group: the best of all of them, filled and cut as well as can be, is the
// optimum up to what the cut loses.
TEST(PricedBound, IsNeverAboveTheBestOfAllGroupsOfOneSequence) {
  int num_binding = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random(seed, "best group");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 7);
    const ClusterSpec cluster = unequal_cluster(random, num_ranks);
    const CostModel cost = scaled_cost(random);
    std::int64_t all = 0;
    for (std::int32_t r = 0; r < num_ranks; ++r)
      all += cluster.capacity_of(Rank(r), Tokens(8192)).value();
    const std::int64_t tokens =
        1000 + static_cast<std::int64_t>(random.below(50, static_cast<std::uint64_t>(all - 999)));
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t subset = 1; subset < 1U << num_ranks; ++subset) {
      std::vector<Member> members;
      std::int64_t held = 0;
      for (std::int32_t r = 0; r < num_ranks; ++r) {
        if ((subset >> r & 1) == 0) continue;
        members.push_back(
            {cluster.speed_of(Rank(r)), cluster.capacity_of(Rank(r), Tokens(8192)).value()});
        held += members.back().capacity;
      }
      if (held < tokens) continue;
      std::int64_t time = 0;
      if (members.size() == 1) {
        const std::array<RingShare, 1> share{
            {{.work = causal_work({0, tokens}), .tokens = Tokens(tokens), .degree = 1}}};
        time = micro_batch_time(cost, share, members[0].speed).value();
      } else {
        time = cut_unevenly(cost, Tokens(tokens), members).time;
      }
      best = std::min(best, time);
    }
    const std::vector<SequenceSpec> sequences = testing::sequences_of({tokens});
    const LowerBound bound = lower_bound(sequences, cost, cluster, Tokens(8192));
    ASSERT_LE(bound.best().value(), best) << "seed " << seed;
    num_binding += 10 * bound.priced.value() > 9 * best ? 1 : 0;
  }
  EXPECT_GT(num_binding, 10) << "the bound under test is never near";
}

// Steps whose groups fill the cluster again and again, so that the bound is near the plan.
TEST(PricedBound, IsNeverAboveThePlansOfManySequencesOnUnequalRanks) {
  double sum = 0;
  double least = 1;
  constexpr std::uint64_t kSeeds = 120;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomStream random(seed, "unequal steps");
    const auto num_ranks = static_cast<std::int32_t>(2 + seed % 23);
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::int64_t most = random.below(300 + 2 * i, 3) == 0 ? 2458 : 2458 * num_ranks;
      lengths.push_back(1 + static_cast<std::int64_t>(
                                random.below(301 + 2 * i, static_cast<std::uint64_t>(most))));
    }
    PlanRequest request = request_of("hdp", testing::sequences_of(lengths), num_ranks, 8192);
    request.cluster = unequal_cluster(random, num_ranks);
    request.cost = scaled_cost(random);
    const StepPlan plan = make_plan(request);
    ASSERT_LE(plan.lower_bound, plan.makespan) << "seed " << seed;
    sum += plan.gap();
    least = std::min(least, plan.gap());
    // Any order of the same sequences gives the same bytes.
    std::reverse(request.sequences.begin(), request.sequences.end());
    EXPECT_EQ(make_plan(request), plan) << "seed " << seed;
  }
  fmt::print(
      "{} steps of 60 sequences on 2 to 24 unequal ranks: gap mean {:.1f} %, least {:.2f} %\n",
      kSeeds, 100 * sum / kSeeds, 100 * least);
  EXPECT_LT(least, 0.02) << "no step in which the bound is near";
}

TEST(PricedBound, RanksOfMoreKindsThanAreLookedAtOneByOneAreRoundedUp) {
  // 2000 speeds, all different: rounded to at most one part in 64 above, so the bound is at most so
  // much lower than that of 1000 of them with half the step.
  const auto bound_of = [](std::int32_t num_ranks) {
    ClusterSpec cluster = uniform_cluster(num_ranks, 8);
    for (std::int32_t r = 0; r < num_ranks; ++r) cluster.speed.push_back(0.6 + 0.4 * r / num_ranks);
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(2 * num_ranks), 30'000);
    return priced_bound_ns(testing::sequences_of(lengths), reference_cost_7b(), cluster,
                           Tokens(8192));
  };
  EXPECT_NEAR(bound_of(2000) / bound_of(1000), 1, 1.0 / 64);
  EXPECT_LT(bound_of(2000), bound_of(1000));
}

PlanRequest workload_step(const Workload& workload, std::int64_t batch, std::int32_t num_ranks) {
  PlanRequest request = request_of(
      "hdp", testing::sequences_of(draw_lengths(workload, Tokens(num_ranks) * 65'536, 1, batch)),
      num_ranks, 8192);
  return request;
}

TEST(UnequalRanks, SpeedsFromSixTenthsAreWithinTwoPercentOfTheBound) {
  for (const auto& [workload, most_gap] : {std::pair(github_workload(Tokens(256 << 10)), 0.02),
                                           std::pair(byted_workload(Tokens(256 << 10)), 0.02)}) {
    PlanRequest request = workload_step(workload, 0, 512);
    const RandomStream random(1, "speeds");
    for (std::uint64_t r = 0; r < 512; ++r)
      request.cluster.speed.push_back(0.6 + 0.4 * random.uniform(r));
    const StepPlan plan = make_plan(request);
    fmt::print("{} on 512 ranks of speeds 0.6 to 1: gap {:.2f} %\n", workload.name,
               100 * plan.gap());
    EXPECT_LE(plan.gap(), most_gap) << workload.name;
  }
}

PlanRequest unequal_workload_step(const Workload& workload, std::int64_t batch) {
  PlanRequest request = workload_step(workload, batch, 512);
  const RandomStream speeds(1, "--speeds");
  const RandomStream memories(1, "--memories");
  for (std::uint64_t r = 0; r < 512; ++r) {
    request.cluster.speed.push_back(0.6 + 0.4 * speeds.uniform(r));
    request.cluster.memory.push_back(0.5 + 0.5 * memories.uniform(r));
  }
  return request;
}

// Without a price of members the first two were 10.8 and 7.9 % above their bounds; with giants
// longest first the third was 8.9 %; without haste for giants that must follow each other the last
// was 10.8 %.
TEST(UnequalRanks, SpeedsAndMemoriesAreNearTheBound) {
  struct Case {
    Workload workload;
    std::int64_t batch = 0;
    double most_gap = 0;
  };
  for (const auto& [workload, batch, most_gap] :
       {Case{byted_workload(Tokens(2 << 20)), 0, 0.075},
        Case{byted_workload(Tokens(256 << 10)), 0, 0.068},
        Case{byted_workload(Tokens(2 << 20)), 2, 0.080},
        Case{github_workload(Tokens(2 << 20)), 1, 0.080}}) {
    const StepPlan plan = make_plan(unequal_workload_step(workload, batch));
    fmt::print("{} batch {} on 512 ranks of speeds 0.6 to 1 and memories 0.5 to 1: gap {:.2f} %\n",
               workload.name, batch, 100 * plan.gap());
    EXPECT_LE(plan.gap(), most_gap) << workload.name;
  }
}

// With lengths and degrees taken together coarsely the best prices looked at give 21.98 s.
TEST(PricedBound, ACloserLookFindsPricesThatBindMore) {
  const PlanRequest request = unequal_workload_step(byted_workload(Tokens(256 << 10)), 0);
  std::vector<SequenceSpec> sequences = request.sequences;
  sort_canonically(sequences);
  const double layer_ns =
      priced_bound_ns(sequences, request.cost, request.cluster, request.options.capacity);
  EXPECT_GT(all_layers(request.cost, layer_ns), Nanoseconds(22'050'000'000));
}

// Steps whose longest sequences leave ranks idle whatever the order: by the work alone 12.9 and
// 3 % above their bounds.
TEST(CrowdedSteps, TheWorstOfTwoHundredStepsAreWithinTwoPercentOfTheBound) {
  for (const auto& [workload, batch] : {std::pair(github_workload(Tokens(2 << 20)), 127),
                                        std::pair(byted_workload(Tokens(2 << 20)), 108)}) {
    const PlanRequest request = workload_step(workload, batch, 512);
    const StepPlan plan = make_plan(request);
    fmt::print("{} batch {}: gap {:.2f} %\n", workload.name, batch, 100 * plan.gap());
    EXPECT_LE(plan.gap(), 0.02) << workload.name;
  }
}

}  // namespace
}  // namespace weft
