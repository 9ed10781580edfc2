#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace weft {
namespace {

TEST(RandomStream, ValuesDependOnSeedPurposeAndIndexAlone) {
  const RandomStream a(7, "weights");
  EXPECT_EQ(a.bits(3), RandomStream(7, "weights").bits(3));
  EXPECT_NE(a.bits(3), a.bits(4));
  EXPECT_NE(a.bits(3), RandomStream(8, "weights").bits(3));
  EXPECT_NE(a.bits(3), RandomStream(7, "order").bits(3));
}

TEST(RandomStream, NormalHasTheMomentsOfTheNormalDistribution) {
  const RandomStream stream(1, "normal");
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.normal(static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
}

TEST(RandomStream, UniformAndBelowStayInRange) {
  const RandomStream stream(2, "range");
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(stream.uniform(i), 0.0);
    EXPECT_LT(stream.uniform(i), 1.0);
    seen.insert(stream.below(i, 7));
  }
  EXPECT_EQ(seen, (std::set<std::uint64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Permutation, EveryElementAppearsOnceForAnySize) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    const Permutation permutation(5, "order", size);
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t value = permutation(i);
      ASSERT_LT(value, size);
      EXPECT_FALSE(seen[value]) << "size " << size << " repeats " << value;
      seen[value] = true;
    }
  }
}

TEST(Permutation, NeighboursScatter) {
  const Permutation permutation(1, "order", 100'000);
  double distance = 0;
  for (std::uint64_t i = 0; i + 1 < 1000; ++i) {
    distance +=
        std::abs(static_cast<double>(permutation(i)) - static_cast<double>(permutation(i + 1)));
  }
  EXPECT_NEAR(distance / 999, 100'000 / 3.0, 4'000);  // mean distance of two uniform points
}

}  // namespace
}  // namespace weft
