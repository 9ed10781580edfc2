// 2^x in vectors, for the SIMD level that includes it (Highway's foreach_target).
//
// Relative error below 2e-7 (float) and 4e-16 (double) for results above the smallest normal
// number; below it a result is 0 or denormal. exp2(0) = 1 exactly, exp2(-inf) = 0, NaN stays NaN.
// REQUIRES x < 127 (float), 1023 (double): softmax weights have x <= 0 but for rounding.
#if defined(WEFT_ATTENTION_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_EXP2_INL_H_
#undef WEFT_ATTENTION_EXP2_INL_H_
#else
#define WEFT_ATTENTION_EXP2_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// kRounder is 1.5 * 2^(mantissa bits) + bias: added to x it leaves round(x) + bias in the low bits,
// which shifted by kMantissaBits are the float 2^round(x); x = kLowest gives 0.
// kSeries: minimax polynomials of 2^r on [-1/2, 1/2] for the relative error, by Remez' exchange in
// 60 decimal digits: 1.9e-9 in degree 6, 3.1e-18 in degree 11.
template <class T>
struct Exp2Constants;

template <>
struct Exp2Constants<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr float kRounder = 12582912.0F + 127.0F;
  static constexpr float kLowest = -127.0F;
  static constexpr int kDegree = 6;
  static constexpr float kSeries[] = {1.0F,           0.693147206F,   0.240226469F,   0.0555032878F,
                                      0.00961848890F, 0.00133999308F, 0.000153458274F};
};

template <>
struct Exp2Constants<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr double kRounder = 6755399441055744.0 + 1023.0;
  static constexpr double kLowest = -1023.0;
  static constexpr int kDegree = 11;
  static constexpr double kSeries[] = {1.0,
                                       0.69314718055994529,
                                       0.24022650695910155,
                                       0.055504108664819925,
                                       0.0096181291075883388,
                                       0.0013333558146789836,
                                       0.00015403530462509965,
                                       1.5252733490062371e-05,
                                       1.3215433091851151e-06,
                                       1.0178197993382468e-07,
                                       7.0741052512368325e-09,
                                       4.4352866745874165e-10};
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  using T = hn::TFromD<D>;
  using Constants = Exp2Constants<T>;
  const hn::Rebind<typename Constants::Bits, D> bits;
  const V rounder = hn::Set(d, Constants::kRounder);
  const V lowest = hn::Set(d, Constants::kLowest);
#if HWY_TARGET == HWY_SCALAR
  const V bounded = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
#else
  const V bounded = hn::Max(lowest, x);  // in this order NaN stays, also on x86
#endif
  const V shifted = hn::Add(bounded, rounder);
  const V rest = hn::Sub(bounded, hn::Sub(shifted, rounder));
  V series = hn::Set(d, Constants::kSeries[Constants::kDegree]);
  for (int i = Constants::kDegree - 1; i >= 0; --i) {
    series = hn::MulAdd(series, rest, hn::Set(d, Constants::kSeries[i]));
  }
  const V power =
      hn::BitCast(d, hn::ShiftLeft<Constants::kMantissaBits>(hn::BitCast(bits, shifted)));
  return hn::Mul(series, power);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#endif
