#include "plan/rank_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

TEST(RankProfile, TasksStartWhereACountOfEveryInstantSaysTheyCan) {
  constexpr std::int32_t kRanks = 50;
  constexpr std::int64_t kInstants = 4000;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomStream random(seed, "rank profile");
    RankProfile profile(kRanks);
    std::vector<std::int32_t> free(kInstants, kRanks);
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const auto degree =
          static_cast<std::int32_t>(1 + random.below(3 * i, i % 4 == 0 ? kRanks : 8));
      const auto duration = static_cast<std::int64_t>(1 + random.below(3 * i + 1, 60));
      std::int64_t start = 0;
      for (std::int64_t t = 0; t < start + duration; ++t) {
        if (free[static_cast<std::size_t>(t)] < degree) start = t + 1;
      }
      ASSERT_EQ(profile.earliest_start(degree, duration), start)
          << "seed " << seed << " task " << i;
      profile.take(start, duration, degree);
      for (std::int64_t t = start; t < start + duration; ++t)
        free[static_cast<std::size_t>(t)] -= degree;
      last = std::max(last, start + duration);
      ASSERT_EQ(profile.last_end(), last);
    }
  }
}

}  // namespace
}  // namespace weft
