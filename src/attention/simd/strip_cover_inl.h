// Which part of (a strip of lanes) x (a block of keys) is visible, for the SIMD level that includes
// it (Highway's foreach_target).
//
// A strip is as many lanes as a micro-kernel works on at once, in up to kStripVectors vectors. Each
// vector computes the leading keys of the block up to the last that any of its lanes sees, in steps
// of kRowStep keys; only steps on the diagonal need a mask.
#if defined(WEFT_ATTENTION_STRIP_COVER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_STRIP_COVER_INL_H_
#undef WEFT_ATTENTION_STRIP_COVER_INL_H_
#else
#define WEFT_ATTENTION_STRIP_COVER_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "attention/simd/product_inl.h"
#include "attention/simd/query_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr std::int64_t kStripLanes =
    kStripVectors * static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));

struct StripCover {
  int num_vectors = 0;
  // Of the block's keys, by vector; neither falls from one vector to the next.
  std::int64_t num_keys[kStripVectors] = {};     // that it computes, a multiple of kRowStep
  std::int64_t seen_by_all[kStripVectors] = {};  // that its first lane sees

  std::int64_t most_keys() const { return num_vectors == 0 ? 0 : num_keys[num_vectors - 1]; }
  // First vector that computes the keys from `key` on.
  int first_vector(std::int64_t key) const {
    int vector = 0;
    while (num_keys[vector] <= key) ++vector;
    return vector;
  }
  bool needs_mask(int first_vector, std::int64_t key) const {
    return seen_by_all[first_vector] < key + kRowStep;
  }
};

// Lanes of the block from `first` on, keys [key, key + num_keys) of the run. limits[lane]: of these
// keys, how many the lane sees; written where a mask may be needed.
template <class T>
StripCover cover_strip(const LaneBlock& block, std::int64_t first, std::int64_t key,
                       std::int64_t num_keys, T* limits) {
  constexpr std::int64_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  const std::int64_t count = std::min(kStripLanes<T>, block.num_lanes - first);
  const auto visible = [&](std::int64_t lane) {
    const std::int64_t seen = block.lanes.visible(block.first_lane + first + lane) - key;
    return std::clamp<std::int64_t>(seen, 0, num_keys);
  };
  StripCover cover;
  cover.num_vectors = static_cast<int>((count + kLanes - 1) / kLanes);
  for (int v = 0; v < cover.num_vectors; ++v) {
    cover.seen_by_all[v] = visible(v * kLanes);
    cover.num_keys[v] = round_up(visible(std::min((v + 1) * kLanes, count) - 1), kRowStep);
  }
  if (cover.seen_by_all[0] == cover.most_keys()) return cover;
  LaneCursor at(block.lanes, block.first_lane + first);
  for (std::int64_t lane = 0; lane < kStripLanes<T>; ++lane) {
    const std::int64_t seen = block.lanes.q_begin + at.row + 1 - block.lanes.k_begin - key;
    limits[lane] = static_cast<T>(std::clamp<std::int64_t>(seen, 0, num_keys));
    at.advance();
  }
  return cover;
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#endif
