#include "plan/group_costs.h"

#include <algorithm>
#include <optional>

namespace weft {
namespace {

CostModel with_one_hop(const CostModel& cost, bool is_in_node) {
  CostModel one = cost;
  const HopCost hop = cost.hop(is_in_node);
  one.hop_ns_per_token = hop.ns_per_token;
  one.hop_fixed_ns = hop.fixed_ns;
  one.node_hop_ns_per_token = one.node_hop_fixed_ns = std::nullopt;
  return one;
}

}  // namespace

GroupCosts::GroupCosts(const CostModel& cost, const ClusterSpec& cluster)
    : inside_(with_one_hop(cost, true)), between_(with_one_hop(cost, false)) {
  if (!cost.has_node_hops()) return;
  node_ranks_ = std::min(cluster.ranks_per_node, cluster.num_ranks);
  has_places_ = node_ranks_ > 1 && cluster.num_nodes() > 1;
}

CostModel simplified_cost(const CostModel& cost, const ClusterSpec& cluster) {
  if (!cost.has_node_hops() || cluster.ranks_per_node == 1) return with_one_hop(cost, false);
  return cluster.num_nodes() == 1 ? with_one_hop(cost, true) : cost;
}

}  // namespace weft
