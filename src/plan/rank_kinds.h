// The kinds of ranks that a lower bound tells apart: ranks of one kind are alike in speed and
// memory.
#pragma once

#include <compare>
#include <vector>

#include "base/units.h"
#include "cluster/cluster_spec.h"

namespace weft {

struct RankKind {
  double speed = 1;
  double memory = 0;  // tokens
  double count = 1;
  auto operator<=>(const RankKind&) const = default;
};

// Of all ranks that are not dead, the fastest first. Where there are more than a thousand kinds,
// speeds and memories are rounded up to a grid: no plan ends later on better ranks.
std::vector<RankKind> kinds_of(const ClusterSpec& cluster, Tokens capacity);

}  // namespace weft
