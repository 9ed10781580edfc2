#include "plan/node_choice.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft {
namespace {

struct NodeLoad {
  std::int32_t free = 0;    // ranks that are free by the start
  std::int32_t taken = 0;   // the last of them, up to the degree
  std::int64_t waited = 0;  // by those, together
};

}  // namespace

RankChoice choose_ranks(std::span<const RankLoad> loads, std::int32_t degree) {
  const auto needed = static_cast<std::size_t>(degree);
  RankChoice choice{.start = loads[needed - 1].first, .chosen = std::vector<std::size_t>(needed)};
  const auto later =
      std::upper_bound(loads.begin(), loads.end(), choice.start,
                       [](std::int64_t value, const RankLoad& load) { return value < load.first; });
  std::iota(choice.chosen.begin(), choice.chosen.end(),
            static_cast<std::size_t>(later - loads.begin()) - needed);
  return choice;
}

std::optional<RankChoice> choose_node(std::span<const RankLoad> loads, std::int32_t degree,
                                      const ClusterSpec& cluster) {
  std::vector<NodeLoad> nodes(static_cast<std::size_t>(cluster.num_nodes()));
  const auto node_of = [&](std::size_t i) {
    return static_cast<std::size_t>(cluster.node_of(Rank(loads[i].second)));
  };
  std::optional<std::int64_t> start;
  std::size_t later = 0;
  for (; later < loads.size() && (!start || loads[later].first <= *start); ++later) {
    if (++nodes[node_of(later)].free == degree && !start) start = loads[later].first;
  }
  if (!start) return std::nullopt;
  for (std::size_t i = later; i-- > 0;) {
    NodeLoad& node = nodes[node_of(i)];
    if (node.taken == degree) continue;
    ++node.taken;
    node.waited += *start - loads[i].first;
  }
  const auto best =
      std::min_element(nodes.begin(), nodes.end(), [&](const NodeLoad& a, const NodeLoad& b) {
        return std::tuple(a.taken < degree, a.waited, a.free) <
               std::tuple(b.taken < degree, b.waited, b.free);
      });
  const auto chosen_node = static_cast<std::size_t>(best - nodes.begin());
  RankChoice choice{.start = *start, .chosen = {}};
  for (std::size_t i = later; choice.chosen.size() < static_cast<std::size_t>(degree);) {
    if (node_of(--i) == chosen_node) choice.chosen.push_back(i);
  }
  std::reverse(choice.chosen.begin(), choice.chosen.end());
  return choice;
}

}  // namespace weft
