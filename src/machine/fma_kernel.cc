#include "machine/fma_kernel.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine/fma_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Twelve named accumulators: an array of vectors would not stay in registers at every level.
template <class T>
FmaRun run(std::int64_t steps, T x_value, T y_value) {
  const hn::ScalableTag<T> d;
  const auto x = hn::Set(d, x_value);
  const auto y = hn::Set(d, y_value);
  // Different starts: equal accumulators would be found equal and computed once.
  const auto start = [&](int k) { return hn::Mul(hn::Set(d, static_cast<T>(k)), y); };
  auto a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  auto a6 = start(6), a7 = start(7), a8 = start(8), a9 = start(9), a10 = start(10), a11 = start(11);
  for (std::int64_t i = 0; i < steps; ++i) {
    a0 = hn::MulAdd(a0, x, y);
    a1 = hn::MulAdd(a1, x, y);
    a2 = hn::MulAdd(a2, x, y);
    a3 = hn::MulAdd(a3, x, y);
    a4 = hn::MulAdd(a4, x, y);
    a5 = hn::MulAdd(a5, x, y);
    a6 = hn::MulAdd(a6, x, y);
    a7 = hn::MulAdd(a7, x, y);
    a8 = hn::MulAdd(a8, x, y);
    a9 = hn::MulAdd(a9, x, y);
    a10 = hn::MulAdd(a10, x, y);
    a11 = hn::MulAdd(a11, x, y);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)),
                           hn::Add(hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)),
                                   hn::Add(hn::Add(a8, a9), hn::Add(a10, a11))));
  const auto lanes = static_cast<double>(hn::Lanes(d));
  return {.flops = 2.0 * kFmaAccumulators * lanes * static_cast<double>(steps),
          .value = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum))) /
                   (kFmaAccumulators * lanes)};
}

FmaRun run_float(std::int64_t steps, float x, float y) { return run<float>(steps, x, y); }
FmaRun run_double(std::int64_t steps, double x, double y) { return run<double>(steps, x, y); }

SimdLevel level() {
  return {.name = hwy::TargetName(HWY_TARGET),
          .float_lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<float>())),
          .double_lanes = static_cast<int>(hn::Lanes(hn::ScalableTag<double>()))};
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(run_float);
HWY_EXPORT(run_double);
HWY_EXPORT(level);

FmaRun run_fma_float(std::int64_t steps, float x, float y) {
  return HWY_DYNAMIC_DISPATCH(run_float)(steps, x, y);
}
FmaRun run_fma_double(std::int64_t steps, double x, double y) {
  return HWY_DYNAMIC_DISPATCH(run_double)(steps, x, y);
}
SimdLevel simd_level() { return HWY_DYNAMIC_DISPATCH(level)(); }

}  // namespace weft
#endif
