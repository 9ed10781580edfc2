#include "model/softmax_rows.h"

#include <cmath>

#include "attention/simd/targets.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/softmax_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/simd/exp2_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr double kLog2E = 1.4426950408889634;
// Several sums side by side: one would wait for each of its additions.
inline constexpr std::int64_t kSideBySide = 4;

template <class T>
T largest_of(const T* row, std::int64_t size) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  T largest = row[0];
  std::int64_t i = 0;
  if (size >= lanes) {
    auto running = hn::LoadU(d, row);
    for (i = lanes; i + lanes <= size; i += lanes) {
      running = hn::Max(running, hn::LoadU(d, row + i));
    }
    largest = hn::GetLane(hn::MaxOfLanes(d, running));
  }
  for (; i < size; ++i) largest = row[i] > largest ? row[i] : largest;
  return largest;
}

template <class D, class T>
HWY_INLINE hn::Vec<D> exponential(D d, const T* from, T largest) {
  const auto distance = hn::Sub(hn::LoadU(d, from), hn::Set(d, largest));
  return exp2(d, hn::Mul(distance, hn::Set(d, static_cast<T>(kLog2E))));
}

// The sum of exp(row - largest), which kKeep leaves in the row.
template <bool kKeep, class T>
double exponentiate(T* row, std::int64_t size, T largest) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> running[kSideBySide];
  for (auto& sum : running) sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kSideBySide * lanes <= size; i += kSideBySide * lanes) {
    for (std::int64_t j = 0; j < kSideBySide; ++j) {
      const auto value = exponential(d, row + i + j * lanes, largest);
      if constexpr (kKeep) hn::StoreU(value, d, row + i + j * lanes);
      running[j] = hn::Add(running[j], value);
    }
  }
  double sum = 0;
  for (const auto& lane_sums : running) {
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, lane_sums)));
  }
  for (; i < size; ++i) {
    const T value = hn::GetLane(exponential(one, row + i, largest));
    if constexpr (kKeep) row[i] = value;
    sum += static_cast<double>(value);
  }
  return sum;
}

template <class T>
void scale(T* row, std::int64_t size, T factor) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factor)), d, row + i);
  }
  for (; i < size; ++i) row[i] *= factor;
}

template <bool kGradients, class T>
void run_rows(const SoftmaxRows<T>& rows) {
  for (std::int64_t r = 0; r < rows.num_rows; ++r) {
    T* row = rows.logits + r * rows.vocab_size;
    const T largest = largest_of(row, rows.vocab_size);
    const double picked = static_cast<double>(row[rows.targets[r]]);
    const double sum = exponentiate<kGradients>(row, rows.vocab_size, largest);
    const double weight = rows.weights[r];
    rows.losses[r] = weight * (static_cast<double>(largest) + std::log(sum) - picked);
    if constexpr (kGradients) {
      scale(row, rows.vocab_size, static_cast<T>(weight / sum));
      row[rows.targets[r]] -= static_cast<T>(weight);
    }
  }
}

void losses_float(const SoftmaxRows<float>& rows) { run_rows<false>(rows); }
void losses_double(const SoftmaxRows<double>& rows) { run_rows<false>(rows); }
void gradients_float(const SoftmaxRows<float>& rows) { run_rows<true>(rows); }
void gradients_double(const SoftmaxRows<double>& rows) { run_rows<true>(rows); }

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(losses_float);
HWY_EXPORT(losses_double);
HWY_EXPORT(gradients_float);
HWY_EXPORT(gradients_double);

void softmax_losses(const SoftmaxRows<float>& rows) { HWY_DYNAMIC_DISPATCH(losses_float)(rows); }
void softmax_losses(const SoftmaxRows<double>& rows) { HWY_DYNAMIC_DISPATCH(losses_double)(rows); }
void softmax_gradients(const SoftmaxRows<float>& rows) {
  HWY_DYNAMIC_DISPATCH(gradients_float)(rows);
}
void softmax_gradients(const SoftmaxRows<double>& rows) {
  HWY_DYNAMIC_DISPATCH(gradients_double)(rows);
}

}  // namespace weft
#endif
