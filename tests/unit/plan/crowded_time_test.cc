#include "plan/crowded_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

TEST(CrowdedTime, IsTheSumOfWhatCannotRunSideBySideAndNothingForWhatCan) {
  const Crowd crowd{.num_ranks = 4, .capacity = 10, .enough = 0};
  const std::vector<CrowdJob> apart{{21, 5}, {20, 3}};  // 3 and 2 of 4 ranks
  EXPECT_EQ(crowded_time(apart, crowd), 8);
  const std::vector<CrowdJob> beside{{20, 5}, {20, 3}};
  EXPECT_EQ(crowded_time(beside, crowd), 5);
  EXPECT_EQ(crowded_time(std::span(apart).first(1), crowd), 0) << "one alone is no crowd";
}

TEST(CrowdedTime, SequencesThatShareASlotNeedOnlyTheRanksForTheirTokens) {
  // 15 and 15 tokens: two ranks each apart, three together.
  const std::vector<CrowdJob> jobs{{15, 4}, {15, 3}};
  EXPECT_EQ(crowded_time(jobs, {.num_ranks = 3, .capacity = 10, .enough = 0}), 4);
  EXPECT_EQ(crowded_time(jobs, {.num_ranks = 2, .capacity = 10, .enough = 0}), 7);
  // A slot lasts as long as its longest: 9 fits beside 15 only in its slot.
  const std::vector<CrowdJob> three{{15, 4}, {15, 3}, {9, 5}};
  EXPECT_EQ(crowded_time(three, {.num_ranks = 4, .capacity = 10, .enough = 0}), 5);
}

TEST(CrowdedTime, OnlyMoreThanWhatIsKnownCounts) {
  const std::vector<CrowdJob> jobs{{21, 5}, {20, 3}};
  EXPECT_EQ(crowded_time(jobs, {.num_ranks = 4, .capacity = 10, .enough = 8}), 0);
  EXPECT_EQ(crowded_time(jobs, {.num_ranks = 4, .capacity = 10, .enough = 7.9}), 8);
}

// Each job as early as it fits, in the given order, whole ranks for each: a schedule.
double list_schedule(const std::vector<CrowdJob>& jobs, const std::vector<std::size_t>& order,
                     const Crowd& crowd) {
  struct Run {
    std::int64_t ranks;
    double start;
    double end;
  };
  std::vector<Run> runs;
  double makespan = 0;
  for (const std::size_t j : order) {
    const std::int64_t ranks = (jobs[j].tokens + crowd.capacity - 1) / crowd.capacity;
    std::vector<double> starts{0};
    for (const Run& run : runs) starts.push_back(run.end);
    std::sort(starts.begin(), starts.end());
    for (const double start : starts) {
      // Used ranks only rise where a run starts.
      std::vector<double> instants{start};
      for (const Run& run : runs) {
        if (run.start > start && run.start < start + jobs[j].ns) instants.push_back(run.start);
      }
      const bool fits = std::all_of(instants.begin(), instants.end(), [&](double at) {
        std::int64_t used = ranks;
        for (const Run& run : runs) used += run.start <= at && at < run.end ? run.ranks : 0;
        return used <= crowd.num_ranks;
      });
      if (!fits) continue;
      runs.push_back({ranks, start, start + jobs[j].ns});
      makespan = std::max(makespan, runs.back().end);
      break;
    }
  }
  return makespan;
}

TEST(CrowdedTime, IsNeverAboveAListScheduleAndEqualToTheBestWhereNothingFillsUp) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random(seed, "crowds");
    const Crowd crowd{.num_ranks = 8, .capacity = seed % 2 == 0 ? 1 : 100, .enough = 0};
    std::vector<CrowdJob> jobs;
    const std::uint64_t count = 2 + random.below(0, 5);
    for (std::uint64_t i = 0; i < count; ++i) {
      jobs.push_back({1 + static_cast<std::int64_t>(random.below(
                              2 * i + 1, static_cast<std::uint64_t>(8 * crowd.capacity))),
                      1 + static_cast<double>(random.below(2 * i + 2, 20))});
    }
    std::vector<std::size_t> order(jobs.size());
    std::iota(order.begin(), order.end(), 0);
    double best = std::numeric_limits<double>::infinity();
    do {
      best = std::min(best, list_schedule(jobs, order, crowd));
    } while (std::next_permutation(order.begin(), order.end()));
    const double bound = crowded_time(jobs, crowd);
    EXPECT_LE(bound, best) << "seed " << seed;
    if (crowd.capacity == 1) {
      EXPECT_EQ(bound, best) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft
