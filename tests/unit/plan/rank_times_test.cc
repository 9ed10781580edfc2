#include "plan/rank_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

constexpr std::int64_t kHorizon = 160;

// What each rank does in every ns.
using Busy = std::vector<std::array<bool, kHorizon>>;

bool is_free(const Busy& busy, std::size_t rank, std::int64_t begin, std::int64_t length) {
  for (std::int64_t t = begin; t < std::min(begin + length, kHorizon); ++t)
    if (busy[rank][static_cast<std::size_t>(t)]) return false;
  return true;
}

TEST(RankTimes, AgreesWithATableOfEveryMoment) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream random(seed, "rank times");
    const std::size_t num_ranks = 1 + seed % 5;
    std::vector<Member> ranks;
    for (std::size_t r = 0; r < num_ranks; ++r)
      ranks.push_back({.speed = 1, .capacity = 1 + static_cast<std::int64_t>(random.below(r, 9))});
    RankTimes times(num_ranks);
    Busy busy(num_ranks);
    for (std::uint64_t i = 0; i < 12; ++i) {
      const std::size_t rank = random.below(100 + 3 * i, num_ranks);
      const auto from = static_cast<std::int64_t>(random.below(101 + 3 * i, 40));
      const auto length = static_cast<std::int64_t>(1 + random.below(102 + 3 * i, 8));
      const std::vector<std::uint32_t> own{static_cast<std::uint32_t>(rank)};
      const std::int64_t begin = times.first_common(own, from, length);
      std::int64_t expected = from;
      while (!is_free(busy, rank, expected, length)) ++expected;
      ASSERT_EQ(begin, expected) << "seed " << seed;
      times.take(own[0], begin, begin + length);
      for (std::int64_t t = begin; t < std::min(begin + length, kHorizon); ++t)
        busy[rank][static_cast<std::size_t>(t)] = true;
    }
    const auto shortest = static_cast<std::int64_t>(1 + random.below(200, 6));
    const Tokens tokens(1 + static_cast<std::int64_t>(random.below(201, 20)));
    std::vector<FreeRank> free;
    const auto held_at = [&](std::int64_t start) {
      std::int64_t held = 0;
      for (std::size_t r = 0; r < num_ranks; ++r)
        held += is_free(busy, r, start, shortest) ? ranks[r].capacity : 0;
      return held;
    };
    std::vector<std::int64_t> starts;
    for (std::int64_t t = 0; t < kHorizon; ++t) {
      times.find_free(t, shortest, free);
      bool is_one_new = false;
      for (std::size_t r = 0; r < num_ranks; ++r) {
        const bool is_one_free = is_free(busy, r, t, shortest);
        ASSERT_EQ(free[r].until > 0, is_one_free)
            << "seed " << seed << " rank " << r << " at " << t;
        if (is_one_free && free[r].since == t) is_one_new = true;
      }
      if (is_one_new && held_at(t) >= tokens.value()) starts.push_back(t);
    }
    EXPECT_EQ(times.starts(ranks, tokens, shortest), starts) << "seed " << seed;
    std::vector<std::uint32_t> all;
    for (std::size_t r = 0; r < num_ranks; ++r) {
      all.push_back(static_cast<std::uint32_t>(r));
      std::int64_t end = kHorizon;
      while (end > 0 && !busy[r][static_cast<std::size_t>(end - 1)]) --end;
      EXPECT_EQ(times.end_of(r), end) << "seed " << seed << " rank " << r;
    }
    std::int64_t common = 3;
    const auto are_free = [&] {
      for (std::size_t r = 0; r < num_ranks; ++r)
        if (!is_free(busy, r, common, shortest)) return false;
      return true;
    };
    while (!are_free()) ++common;
    EXPECT_EQ(times.first_common(all, 3, shortest), common) << "seed " << seed;
  }
}

TEST(RankTimes, ARankThatIsNotFreeIsNotTaken) {
  RankTimes times(1);
  times.take(0, 10, 20);
  EXPECT_ANY_THROW(times.take(0, 15, 25));
}

}  // namespace
}  // namespace weft
