#include "cluster/cluster_spec.h"

#include "base/error.h"

namespace weft {

double ClusterSpec::speed_of(Rank rank) const {
  if (speed.empty()) return 1.0;
  WEFT_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < speed.size(),
             "rank {} of a cluster with {} speeds", rank, speed.size());
  return speed[static_cast<std::size_t>(rank.value())];
}

std::int32_t ClusterSpec::node_of(Rank rank) const { return rank.value() / ranks_per_node; }

std::int32_t ClusterSpec::num_nodes() const {
  return (num_ranks + ranks_per_node - 1) / ranks_per_node;
}

ClusterSpec uniform_cluster(std::int32_t num_ranks, std::int32_t ranks_per_node) {
  WEFT_USER_CHECK(num_ranks >= 1, "cluster: num_ranks is {}, expected at least 1", num_ranks);
  WEFT_USER_CHECK(ranks_per_node >= 1, "cluster: ranks_per_node is {}, expected at least 1",
                  ranks_per_node);
  return {.num_ranks = num_ranks, .ranks_per_node = ranks_per_node, .speed = {}};
}

void validate(const ClusterSpec& cluster) {
  uniform_cluster(cluster.num_ranks, cluster.ranks_per_node);
  if (cluster.speed.empty()) return;
  WEFT_USER_CHECK(cluster.speed.size() == static_cast<std::size_t>(cluster.num_ranks),
                  "cluster: {} speeds for {} ranks; give one for each rank, or none",
                  cluster.speed.size(), cluster.num_ranks);
  for (std::size_t rank = 0; rank < cluster.speed.size(); ++rank) {
    // 1e-6..1e6 keeps every predicted time inside int64 nanoseconds.
    WEFT_USER_CHECK(cluster.speed[rank] >= 1e-6 && cluster.speed[rank] <= 1e6,
                    "cluster: speed of rank {} is {}, expected 1e-6..1e6 (1 = the cost model's "
                    "device)",
                    rank, cluster.speed[rank]);
  }
}

}  // namespace weft
