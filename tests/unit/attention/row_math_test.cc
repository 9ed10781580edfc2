#include "attention/row_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace weft {
namespace {

// Lengths around the vector loop and its remainder.
constexpr std::int64_t kSizes[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130};

TEST(RowMath, FloatExpIsWithinTwoInTenMillionOverItsWholeRange) {
  const RowMath<float> math = row_math<float>();
  std::vector<float> values;
  for (double x = -87.3; x < 88.7; x += 0.00137) values.push_back(static_cast<float>(x));
  const std::vector<float> inputs = values;
  math.exp_row(values.data(), static_cast<std::int64_t>(values.size()), 0.0F);
  double largest_error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double truth = std::exp(static_cast<double>(inputs[i]));
    largest_error = std::max(largest_error, std::abs(values[i] - truth) / truth);
  }
  EXPECT_LT(largest_error, 2e-7);
  EXPECT_GT(values.size(), 100'000U);
}

template <class T>
class RowMathOf : public testing::Test {};
using Dtypes = testing::Types<float, double>;
TYPED_TEST_SUITE(RowMathOf, Dtypes);

TYPED_TEST(RowMathOf, ExpKeepsItsSpecialValuesAtEveryIndex) {
  constexpr TypeParam kInf = std::numeric_limits<TypeParam>::infinity();
  for (std::int64_t index = 0; index < 70; ++index) {
    const auto exp_at = [&](TypeParam x) {
      std::vector<TypeParam> row(70, TypeParam(-1));
      row[index] = x;
      row_math<TypeParam>().exp_row(row.data(), 70, 0);
      return row[index];
    };
    EXPECT_EQ(exp_at(0), 1);
    EXPECT_EQ(exp_at(-kInf), 0);
    EXPECT_EQ(exp_at(-1e30F), 0);
    EXPECT_EQ(exp_at(kInf), kInf);
    EXPECT_EQ(exp_at(1e30F), kInf);
    EXPECT_TRUE(std::isnan(exp_at(std::numeric_limits<TypeParam>::quiet_NaN())));
  }
}

TYPED_TEST(RowMathOf, ExpRowSubtractsTheShiftAndReturnsTheSum) {
  for (const std::int64_t size : kSizes) {
    std::vector<TypeParam> row(size);
    for (std::int64_t i = 0; i < size; ++i) row[i] = static_cast<TypeParam>(i % 7) - 3;
    const TypeParam sum = row_math<TypeParam>().exp_row(row.data(), size, 3);
    double expected = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = std::exp(static_cast<double>(i % 7) - 6);
      expected += value;
      EXPECT_NEAR(row[i], value, 3e-7 * value) << "size " << size << " index " << i;
    }
    EXPECT_NEAR(sum, expected, 1e-6 * expected + 1e-30) << "size " << size;
  }
}

TYPED_TEST(RowMathOf, LargestIsFoundAtEveryIndex) {
  for (const std::int64_t size : kSizes) {
    std::vector<TypeParam> row(size, TypeParam(-5));
    EXPECT_EQ(row_math<TypeParam>().largest(row.data(), size),
              size == 0 ? -std::numeric_limits<TypeParam>::infinity() : TypeParam(-5));
    for (std::int64_t index = 0; index < size; ++index) {
      row[index] = -2;
      EXPECT_EQ(row_math<TypeParam>().largest(row.data(), size), TypeParam(-2));
      row[index] = -5;
    }
  }
}

TYPED_TEST(RowMathOf, ScoreGradientFollowsItsFormula) {
  for (const std::int64_t size : kSizes) {
    std::vector<TypeParam> weights(size), d_weights(size);
    for (std::int64_t i = 0; i < size; ++i) {
      weights[i] = static_cast<TypeParam>(i);
      d_weights[i] = static_cast<TypeParam>(2 * i + 1);
    }
    row_math<TypeParam>().d_score_row(weights.data(), d_weights.data(), size, 3, TypeParam(0.5));
    for (std::int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(d_weights[i], static_cast<TypeParam>(0.5 * i * (2 * i - 2)));
    }
  }
}

}  // namespace
}  // namespace weft
