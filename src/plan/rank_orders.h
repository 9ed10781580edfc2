// Orders in which ranks of unequal speed and memory join a group, and their place in it ends: the
// first ones that hold the sequence are one candidate (plan/uneven_placement.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/uneven_group.h"

namespace weft {

// Ranks [begin, end) by (price - speed_value * speed + what a member more costs the others) for
// each token that they hold up to `level`.
struct PriceOrderKey {
  std::int64_t level = 0;    // most tokens that a member holds
  double speed_value = 0;    // what a group gains by a unit of speed
  double member_weight = 0;  // of what a member more costs the others
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};
// `prices`: [ranks], of their time.
std::vector<std::uint32_t> price_order(std::span<const Member> ranks,
                                       std::span<const double> prices, const PriceOrderKey& key);

// By speed, so that neighbours are alike; or mixed, so that any stretch of ranks has the mean speed
// (sorted by speed, then dealt in the order of reversed bits).
std::vector<std::uint32_t> speed_order(std::span<const Member> ranks, bool is_mixed);

}  // namespace weft
