// ClusterSpec: the ranks a plan may use, where they are, how fast each one is, and how much it
// holds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace weft {

struct ClusterSpec {
  std::int32_t num_ranks = 1;
  std::int32_t ranks_per_node =
      1;                      // ranks [k * ranks_per_node, (k + 1) * ranks_per_node) share node k
  std::vector<double> speed;  // [num_ranks], relative: 1 = the cost model's device; empty = all 1
  // [num_ranks], 0..1 of the plan's capacity; 0 = dead: the rank gets nothing. Empty = all 1.
  std::vector<double> memory;
  // Pipeline stages of every rank, each on a device of its own: the layers of a rank are cut evenly
  // into so many stages (docs/planner.md "Pipelines").
  std::int32_t pipeline_stages = 1;
  // Chunks of layers that each of these devices holds, in turns (interleaved 1F1B).
  std::int32_t virtual_stages = 1;
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;

  double speed_of(Rank rank) const;   // > 0
  double memory_of(Rank rank) const;  // 0..1
  // Tokens that the rank holds when `capacity` is what a rank of full memory holds.
  Tokens capacity_of(Rank rank, Tokens capacity) const;
  bool is_uniform() const;  // all speeds alike, all memories 1
  std::int32_t node_of(Rank rank) const;
  std::int32_t num_nodes() const;
  bool share_node(std::span<const Rank> ranks) const;  // REQUIRES: at least one
};

// N equal ranks. UserError unless num_ranks >= 1 and ranks_per_node >= 1.
ClusterSpec uniform_cluster(std::int32_t num_ranks, std::int32_t ranks_per_node);

// UserError unless the counts are at least 1, `speed` is empty or has one value in [1e-6, 1e6] for
// each rank, and `memory` is empty or has one value in [0, 1] for each rank, not all 0.
void validate(const ClusterSpec& cluster);

}  // namespace weft
