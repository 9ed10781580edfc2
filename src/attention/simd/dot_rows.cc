#include "attention/simd/dot_rows.h"

#include "attention/simd/targets.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/simd/dot_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
T dot(const T* a, const T* b, std::int64_t size) {
  const hn::ScalableTag<T> d;
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void dot_all(const T* a, const T* b, const RowsShape& shape, T* sums) {
  for (std::int64_t row = 0; row < shape.num_rows; ++row) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      sums[head * shape.num_rows + row] = dot(a, b, shape.head_dim);
      a += shape.head_dim;
      b += shape.head_dim;
    }
  }
}

void dot_float(const float* a, const float* b, const RowsShape& shape, float* sums) {
  dot_all(a, b, shape, sums);
}
void dot_double(const double* a, const double* b, const RowsShape& shape, double* sums) {
  dot_all(a, b, shape, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(dot_float);
HWY_EXPORT(dot_double);

void dot_rows(const float* a, const float* b, const RowsShape& shape, float* sums) {
  HWY_DYNAMIC_DISPATCH(dot_float)(a, b, shape, sums);
}
void dot_rows(const double* a, const double* b, const RowsShape& shape, double* sums) {
  HWY_DYNAMIC_DISPATCH(dot_double)(a, b, shape, sums);
}

}  // namespace weft
#endif
