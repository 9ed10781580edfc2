// Which ranks a group takes where its hops are cheaper inside a node.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cluster/cluster_spec.h"

namespace weft {

using RankLoad = std::pair<std::int64_t, std::int32_t>;  // (when the rank is free, rank)

struct RankChoice {
  std::int64_t start = 0;           // all of them are free
  std::vector<std::size_t> chosen;  // ascending places among the loads
};

// The last `degree` ranks of those that are free first. `loads`: ascending, at least `degree`.
RankChoice choose_ranks(std::span<const RankLoad> loads, std::int32_t degree);

// The same inside one node: of the nodes that have so many free ranks first, the one whose ranks
// wait least for the start, then the one with the fewest free ranks besides. nullopt: no node has
// so many ranks.
std::optional<RankChoice> choose_node(std::span<const RankLoad> loads, std::int32_t degree,
                                      const ClusterSpec& cluster);

}  // namespace weft
