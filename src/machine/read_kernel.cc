#include "machine/read_kernel.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "machine/read_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Four sums, so that additions never wait for each other.
std::uint64_t sum_all(const std::uint64_t* words, std::size_t count) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::size_t at = 0;
  for (; at + 4 * lanes <= count; at += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, words + at));
    s1 = hn::Add(s1, hn::LoadU(d, words + at + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, words + at + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, words + at + 3 * lanes));
  }
  std::uint64_t sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; at < count; ++at) sum += words[at];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(sum_all);

std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_all)(words, count);
}

}  // namespace weft
#endif
