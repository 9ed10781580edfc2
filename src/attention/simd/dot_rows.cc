#include "attention/simd/dot_rows.h"

#include "attention/kernel_shapes.h"
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

// One product at a time would wait for each of its additions.
inline constexpr std::int64_t kSideBySide = 8;

template <std::int64_t kCount, class T>
void dot_some(const T* a, const T* b, std::int64_t size, T* sums) {
  const hn::CappedTag<T, 1> d;
  using V = hn::Vec<hn::CappedTag<T, 1>>;
  V running[kCount];
  for (std::int64_t j = 0; j < kCount; ++j) running[j] = hn::Zero(d);
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < kCount; ++j) {
      running[j] = hn::MulAdd(hn::Set(d, a[j * size + i]), hn::Set(d, b[j * size + i]), running[j]);
    }
  }
  for (std::int64_t j = 0; j < kCount; ++j) sums[j] = hn::GetLane(running[j]);
}

template <class T>
void dot_all(const T* a, const T* b, const RowsShape& shape, const RowStats<T>& sums) {
  const std::int64_t count = shape.num_rows * shape.num_heads;
  const auto place = [&](std::int64_t index) -> T& {
    return row_stat(sums, index % shape.num_heads, index / shape.num_heads);
  };
  std::int64_t index = 0;
  for (; index + kSideBySide <= count; index += kSideBySide) {
    T some[kSideBySide];
    dot_some<kSideBySide>(a + index * shape.head_dim, b + index * shape.head_dim, shape.head_dim,
                          some);
    for (std::int64_t j = 0; j < kSideBySide; ++j) place(index + j) = some[j];
  }
  for (; index < count; ++index) {
    dot_some<1>(a + index * shape.head_dim, b + index * shape.head_dim, shape.head_dim,
                &place(index));
  }
}

void dot_float(const float* a, const float* b, const RowsShape& shape,
               const RowStats<float>& sums) {
  dot_all(a, b, shape, sums);
}
void dot_double(const double* a, const double* b, const RowsShape& shape,
                const RowStats<double>& sums) {
  dot_all(a, b, shape, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(dot_float);
HWY_EXPORT(dot_double);

void dot_rows(const float* a, const float* b, const RowsShape& shape, const RowStats<float>& sums) {
  HWY_DYNAMIC_DISPATCH(dot_float)(a, b, shape, sums);
}
void dot_rows(const double* a, const double* b, const RowsShape& shape,
              const RowStats<double>& sums) {
  HWY_DYNAMIC_DISPATCH(dot_double)(a, b, shape, sums);
}

}  // namespace weft
#endif
