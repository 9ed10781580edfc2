#include "cluster/cluster_spec.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

double ClusterSpec::speed_of(Rank rank) const {
  if (speed.empty()) return 1.0;
  WEFT_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < speed.size(),
             "rank {} of a cluster with {} speeds", rank, speed.size());
  return speed[static_cast<std::size_t>(rank.value())];
}

double ClusterSpec::memory_of(Rank rank) const {
  if (memory.empty()) return 1.0;
  WEFT_CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < memory.size(),
             "rank {} of a cluster with {} memories", rank, memory.size());
  return memory[static_cast<std::size_t>(rank.value())];
}

Tokens ClusterSpec::capacity_of(Rank rank, Tokens capacity) const {
  const double share = memory_of(rank);
  if (share == 1.0) return capacity;
  return Tokens(static_cast<std::int64_t>(share * static_cast<double>(capacity.value())));
}

bool ClusterSpec::is_uniform() const {
  const auto all = [](const std::vector<double>& values, double value) {
    return std::all_of(values.begin(), values.end(), [=](double v) { return v == value; });
  };
  return (speed.empty() || all(speed, speed.front())) && all(memory, 1.0);
}

std::int32_t ClusterSpec::node_of(Rank rank) const { return rank.value() / ranks_per_node; }

std::int32_t ClusterSpec::num_nodes() const {
  return (num_ranks + ranks_per_node - 1) / ranks_per_node;
}

bool ClusterSpec::share_node(std::span<const Rank> ranks) const {
  if (ranks.size() > static_cast<std::size_t>(ranks_per_node)) return false;
  const std::int32_t node = node_of(ranks.front());
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) { return node_of(rank) == node; });
}

ClusterSpec uniform_cluster(std::int32_t num_ranks, std::int32_t ranks_per_node) {
  WEFT_USER_CHECK(num_ranks >= 1, "cluster: num_ranks is {}, expected at least 1", num_ranks);
  WEFT_USER_CHECK(ranks_per_node >= 1, "cluster: ranks_per_node is {}, expected at least 1",
                  ranks_per_node);
  return {.num_ranks = num_ranks, .ranks_per_node = ranks_per_node, .speed = {}, .memory = {}};
}

void validate(const ClusterSpec& cluster) {
  uniform_cluster(cluster.num_ranks, cluster.ranks_per_node);
  WEFT_USER_CHECK(cluster.pipeline_stages >= 1,
                  "cluster: pipeline_stages is {}, expected at least 1", cluster.pipeline_stages);
  WEFT_USER_CHECK(cluster.virtual_stages >= 1, "cluster: virtual_stages is {}, expected at least 1",
                  cluster.virtual_stages);
  WEFT_USER_CHECK(cluster.virtual_stages == 1 || cluster.pipeline_stages > 1,
                  "cluster: {} virtual stages without a pipeline; expected 1, or more pipeline "
                  "stages than one",
                  cluster.virtual_stages);
  const auto num_ranks = static_cast<std::size_t>(cluster.num_ranks);
  WEFT_USER_CHECK(cluster.speed.empty() || cluster.speed.size() == num_ranks,
                  "cluster: {} speeds for {} ranks; give one for each rank, or none",
                  cluster.speed.size(), cluster.num_ranks);
  WEFT_USER_CHECK(cluster.memory.empty() || cluster.memory.size() == num_ranks,
                  "cluster: {} memories for {} ranks; give one for each rank, or none",
                  cluster.memory.size(), cluster.num_ranks);
  double most_memory = cluster.memory.empty() ? 1.0 : 0.0;
  for (std::size_t rank = 0; rank < cluster.memory.size(); ++rank) {
    WEFT_USER_CHECK(cluster.memory[rank] >= 0 && cluster.memory[rank] <= 1,
                    "cluster: memory of rank {} is {}, expected 0..1 (1 = the plan's capacity, 0 = "
                    "a dead rank)",
                    rank, cluster.memory[rank]);
    most_memory = std::max(most_memory, cluster.memory[rank]);
  }
  WEFT_USER_CHECK(most_memory > 0, "cluster: all {} ranks are dead", cluster.num_ranks);
  for (std::size_t rank = 0; rank < cluster.speed.size(); ++rank) {
    // 1e-6..1e6 keeps every predicted time inside int64 nanoseconds.
    WEFT_USER_CHECK(cluster.speed[rank] >= 1e-6 && cluster.speed[rank] <= 1e6,
                    "cluster: speed of rank {} is {}, expected 1e-6..1e6 (1 = the cost model's "
                    "device)",
                    rank, cluster.speed[rank]);
  }
}

}  // namespace weft
