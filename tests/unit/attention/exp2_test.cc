// 2^x at every SIMD level that this processor has.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "attention/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/attention/exp2_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/simd/exp2_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

template <class T>
void exp2_all(T* values, std::size_t size) {
  const hn::ScalableTag<T> d;
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) {
    hn::StoreU(exp2(d, hn::LoadU(d, values + i)), d, values + i);
  }
}
void exp2_float(float* values, std::size_t size) { exp2_all(values, size); }
void exp2_double(double* values, std::size_t size) { exp2_all(values, size); }

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {
namespace {

HWY_EXPORT(exp2_float);
HWY_EXPORT(exp2_double);

// REQUIRES a size that is a multiple of 16.
void exp2_in_place(std::vector<float>& values) {
  HWY_DYNAMIC_DISPATCH(exp2_float)(values.data(), values.size());
}
void exp2_in_place(std::vector<double>& values) {
  HWY_DYNAMIC_DISPATCH(exp2_double)(values.data(), values.size());
}

template <class Body>
void at_every_level(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

template <class T>
class Exp2 : public testing::Test {};
using Dtypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Exp2, Dtypes);

TYPED_TEST(Exp2, IsWithinItsStatedErrorOverItsWholeRange) {
  constexpr bool kIsFloat = std::is_same_v<TypeParam, float>;
  at_every_level([&] {
    const long double lowest = kIsFloat ? -126 : -1022;
    std::vector<TypeParam> inputs;
    for (long double x = lowest; x < 1; x += -lowest / 199'999) {
      inputs.push_back(static_cast<TypeParam>(x));
    }
    inputs.resize(inputs.size() / 16 * 16);
    ASSERT_GT(inputs.size(), 190'000U);
    std::vector<TypeParam> values = inputs;
    exp2_in_place(values);
    long double largest_error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const long double truth = std::exp2(static_cast<long double>(inputs[i]));
      largest_error = std::max(largest_error, std::abs(values[i] - truth) / truth);
    }
    EXPECT_LT(largest_error, kIsFloat ? 2e-7L : 4e-16L);
  });
}

TYPED_TEST(Exp2, KeepsItsSpecialValues) {
  constexpr TypeParam kInf = std::numeric_limits<TypeParam>::infinity();
  at_every_level([&] {
    const auto of = [](TypeParam x) {
      std::vector<TypeParam> values(16, x);
      exp2_in_place(values);
      return values[15];
    };
    EXPECT_EQ(of(0), 1);
    EXPECT_EQ(of(-1), TypeParam(0.5));
    EXPECT_EQ(of(-kInf), 0);
    EXPECT_EQ(of(std::numeric_limits<TypeParam>::lowest()), 0);
    EXPECT_EQ(of(TypeParam(-2000)), 0);
    EXPECT_TRUE(std::isnan(of(std::numeric_limits<TypeParam>::quiet_NaN())));
  });
}

}  // namespace
}  // namespace weft
#endif
