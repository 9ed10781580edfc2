#include "attention/row_math.h"

#include <bit>
#include <cmath>
#include <limits>

// One body, several instruction sets: the bodies below are inlined into functions that carry a
// target attribute.
#define WEFT_ROW_BODY [[gnu::always_inline]] inline

namespace weft {
namespace {

// Independent partial results, so that a reduction becomes vector code without reordering by the
// compiler: two vectors of the widest kind.
constexpr std::int64_t kLanes = 32;

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln(2)/2: Taylor to degree 7, whose remainder
// is below 6e-9.
WEFT_ROW_BODY float exp_value(float x) {
  constexpr float kLog2E = 0x1.715476p+0F;
  constexpr float kRounder = 0x1.8p+23F;    // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0x1.62e4p-1F;  // n * kLn2High is exact for |n| < 2^9
  constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  constexpr float kSmallest = -0x1.5d589ep+6F;  // -87.33654: ln 2^-126
  constexpr float kLargest = 0x1.62e42ep+6F;    // 88.72283: just below ln of the largest float
  const float shifted = x * kLog2E + kRounder;
  const float n = shifted - kRounder;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float series = 1.0F / 5040;
  series = series * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = series * r + 1;
  series = series * r + 1;
  // 2^n in two factors: n may be 128 where the product is still finite.
  const auto bits = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRounder);
  const auto half = bits >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((bits - half + 127) << 23);
  const float value = series * first * second;
  const float bounded = x < kSmallest ? 0.0F : value;
  return x > kLargest ? std::numeric_limits<float>::infinity() : bounded;
}

WEFT_ROW_BODY double exp_value(double x) { return std::exp(x); }

template <class T>
WEFT_ROW_BODY T largest_body(const T* values, std::int64_t size) {
  T lanes[kLanes];
  for (T& lane : lanes) lane = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      lanes[j] = values[i + j] > lanes[j] ? values[i + j] : lanes[j];
    }
  }
  for (; i < size; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  T largest = lanes[0];
  for (const T lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

template <class T>
WEFT_ROW_BODY T exp_row_body(T* values, std::int64_t size, T shift) {
  T lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const T value = exp_value(values[i + j] - shift);
      values[i + j] = value;
      lanes[j] += value;
    }
  }
  for (; i < size; ++i) {
    values[i] = exp_value(values[i] - shift);
    lanes[0] += values[i];
  }
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

template <class T>
WEFT_ROW_BODY void d_score_row_body(const T* weights, T* d_weights, std::int64_t size, T delta,
                                    T scale) {
  for (std::int64_t i = 0; i < size; ++i) {
    d_weights[i] = scale * weights[i] * (d_weights[i] - delta);
  }
}

#define WEFT_ROW_MATH(name, target)                                                            \
  template <class T>                                                                           \
  struct name {                                                                                \
    target static T largest(const T* values, std::int64_t size) {                              \
      return largest_body(values, size);                                                       \
    }                                                                                          \
    target static T exp_row(T* values, std::int64_t size, T shift) {                           \
      return exp_row_body(values, size, shift);                                                \
    }                                                                                          \
    target static void d_score_row(const T* weights, T* d_weights, std::int64_t size, T delta, \
                                   T scale) {                                                  \
      d_score_row_body(weights, d_weights, size, delta, scale);                                \
    }                                                                                          \
    static RowMath<T> table() { return {&largest, &exp_row, &d_score_row}; }                   \
  }

WEFT_ROW_MATH(BaselineMath, );
#if defined(__x86_64__)
WEFT_ROW_MATH(Avx2Math, [[gnu::target("avx2,fma")]]);
WEFT_ROW_MATH(Avx512Math, [[gnu::target("avx512f,avx512vl,avx512dq,prefer-vector-width=512")]]);
#endif

}  // namespace

template <class T>
RowMath<T> row_math() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    return Avx512Math<T>::table();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2Math<T>::table();
#endif
  return BaselineMath<T>::table();
}

template RowMath<float> row_math();
template RowMath<double> row_math();

}  // namespace weft
