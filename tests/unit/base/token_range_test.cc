#include "base/token_range.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(TokenRange, OverlapIsHalfOpen) {
  EXPECT_FALSE(overlaps({0, 4}, {4, 8}));
  EXPECT_TRUE(overlaps({0, 5}, {4, 8}));
  EXPECT_FALSE(overlaps({3, 3}, {0, 8}));
  EXPECT_TRUE((TokenRange{2, 2}).empty());
  EXPECT_TRUE((TokenRange{2, 4}).contains(3));
  EXPECT_FALSE((TokenRange{2, 4}).contains(4));
}

TEST(TokenRange, CausalWorkCountsQueryKeyPairs) {
  EXPECT_EQ(causal_work({0, 0}), 0);
  EXPECT_EQ(causal_work({0, 1}), 1);
  EXPECT_EQ(causal_work({0, 4}), 10);
  EXPECT_EQ(causal_work({2, 5}), 3 + 4 + 5);
  for (std::int64_t begin = 0; begin < 9; ++begin) {
    for (std::int64_t end = begin; end < 12; ++end) {
      std::int64_t pairs = 0;
      for (std::int64_t p = begin; p < end; ++p) pairs += p + 1;
      EXPECT_EQ(causal_work({begin, end}), pairs);
    }
  }
  const std::int64_t two_million = std::int64_t{2} << 20;
  EXPECT_EQ(causal_work({0, two_million}), two_million / 2 * (two_million + 1));
}

}  // namespace
}  // namespace weft
