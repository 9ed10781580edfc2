#include "attention/lse_merge.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace weft {
namespace {

template <class T>
class LseMerge : public testing::Test {
 protected:
  static constexpr T kInf = std::numeric_limits<T>::infinity();
};
using Dtypes = testing::Types<float, double>;
TYPED_TEST_SUITE(LseMerge, Dtypes);

TYPED_TEST(LseMerge, DistantPartialsLeaveTheLargerOneInBothOrders) {
  for (const bool larger_first : {true, false}) {
    std::array<TypeParam, 2> out =
        larger_first ? std::array<TypeParam, 2>{3, 4} : std::array<TypeParam, 2>{1, 2};
    const std::array<TypeParam, 2> incoming =
        larger_first ? std::array<TypeParam, 2>{1, 2} : std::array<TypeParam, 2>{3, 4};
    TypeParam lse = larger_first ? 100 : -100;
    merge_row<TypeParam>(out.data(), lse, incoming.data(), 1, larger_first ? -100 : 100, 2);
    EXPECT_EQ(lse, TypeParam(100));
    EXPECT_EQ(out[0], TypeParam(3));
    EXPECT_EQ(out[1], TypeParam(4));
  }
}

TYPED_TEST(LseMerge, PartialOverNoKeysChangesNothing) {
  std::array<TypeParam, 2> out{3, 4};
  TypeParam lse = TypeParam(-1.5);
  // What a partial over no keys holds is never read, not even a NaN.
  const std::array<TypeParam, 2> empty{std::numeric_limits<TypeParam>::quiet_NaN(), 1};
  merge_row<TypeParam>(out.data(), lse, empty.data(), this->kInf, -this->kInf, 2);
  EXPECT_EQ(lse, TypeParam(-1.5));
  EXPECT_EQ(out[0], TypeParam(3));
  EXPECT_EQ(out[1], TypeParam(4));
}

TYPED_TEST(LseMerge, FirstPartialReplacesTheNeutralOne) {
  std::array<TypeParam, 2> out{0, 0};
  TypeParam lse = -this->kInf;
  const std::array<TypeParam, 2> incoming{6, 8};
  merge_row<TypeParam>(out.data(), lse, incoming.data(), TypeParam(0.5), 7, 2);
  EXPECT_EQ(lse, TypeParam(7));
  EXPECT_EQ(out[0], TypeParam(3));
  EXPECT_EQ(out[1], TypeParam(4));
}

TYPED_TEST(LseMerge, TwoPartialsOverNoKeysStayNeutral) {
  std::array<TypeParam, 1> out{0};
  TypeParam lse = -this->kInf;
  const std::array<TypeParam, 1> incoming{0};
  merge_row<TypeParam>(out.data(), lse, incoming.data(), 1, -this->kInf, 1);
  EXPECT_EQ(lse, -this->kInf);
  EXPECT_EQ(out[0], TypeParam(0));
}

TYPED_TEST(LseMerge, EqualPartialsAverage) {
  std::array<TypeParam, 1> out{2};
  TypeParam lse = 5;
  const std::array<TypeParam, 1> incoming{4};
  merge_row<TypeParam>(out.data(), lse, incoming.data(), 1, 5, 1);
  EXPECT_NEAR(lse, 5 + std::log(2.0), 1e-6);
  EXPECT_NEAR(out[0], 3, 1e-6);
}

TYPED_TEST(LseMerge, WeightsAddUpToOneAtEveryDistance) {
  for (const TypeParam distance : {0.0, 1e-6, 0.5, 3.0, 20.0, 80.0, 700.0, 1e5, 3e38}) {
    const auto weights = merge_weights<TypeParam>(0, -distance);
    EXPECT_NEAR(weights.current + weights.incoming, 1, 1e-6) << "distance " << distance;
    EXPECT_GE(weights.lse, 0) << "distance " << distance;
    const auto swapped = merge_weights<TypeParam>(-distance, 0);
    EXPECT_EQ(swapped.lse, weights.lse);
    EXPECT_EQ(swapped.incoming, weights.current);
  }
}

TYPED_TEST(LseMerge, NanStaysVisible) {
  const TypeParam nan = std::numeric_limits<TypeParam>::quiet_NaN();
  EXPECT_TRUE(std::isnan(merge_weights<TypeParam>(nan, 1).lse));
  EXPECT_TRUE(std::isnan(merge_weights<TypeParam>(1, nan).lse));
  EXPECT_TRUE(std::isnan(merge_weights<TypeParam>(1, nan).current));
}

}  // namespace
}  // namespace weft
