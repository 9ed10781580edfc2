// CostModel: the time of a micro-batch (design section 3 "Time"; ByteScale Eq. 3 with the exchange
// made explicit).
//
// A micro-batch costs, per layer and forward: the sum over its pieces of (a * work + b * tokens),
// plus what a ring of D ranks adds in each of its D - 1 further steps, plus c once, plus the
// exchange that compute cannot hide; the backward pass costs `backward_ratio` times that. `work`
// counts causal (query, key) pairs that the rank computes. Results are rounded to int64
// nanoseconds; the file is built without floating-point contraction, so every CPU decides alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/token_range.h"
#include "base/units.h"

namespace weft {

// One hop of K and V from a member of a ring to the next.
struct HopCost {
  double ns_per_token = 0;
  double fixed_ns = 0;
};

struct CostModel {
  std::string name;
  std::string source;                // where the coefficients come from
  std::int32_t num_layers = 1;       // layers per rank
  double attention_ns_per_pair = 0;  // a: one (query, key) pair, all heads, one layer forward
  double linear_ns_per_token = 0;    // b: everything that grows with tokens, one layer forward
  double fixed_ns = 0;               // c: once per micro-batch and layer forward, not divided by D
  // A further step of a ring beyond its first: queries are read again and results merged, per token
  // of this rank's share, and once.
  double ring_step_ns_per_token = 0;
  double ring_step_fixed_ns = 0;
  double hop_ns_per_token = 0;  // one ring hop, per token of K and V sent
  double hop_fixed_ns = 0;      // one ring hop, whatever its size
  // The same in a ring whose ranks all share a node, at most as much; without a value, as any hop.
  std::optional<double> node_hop_ns_per_token = std::nullopt;
  std::optional<double> node_hop_fixed_ns = std::nullopt;
  double backward_ratio = 2;  // backward time / forward time
  // K and V of one token in one layer, for counting bytes; 8 heads of 128 elements of 2 bytes.
  double kv_bytes_per_token = 4096;
  // For plans that offload activations (docs/planner.md "Offload"); 0: the file does not say.
  double activation_bytes_per_token = 0;  // kept between forward and backward, one token and layer
  double offload_bytes_per_second = 0;    // device to host or back, the slower of the two
  double host_bytes_per_rank = 0;         // host memory for offloaded activations; 0: no limit
  // For the end of a step (docs/cost.md "The end of a step"); 0: the file does not say.
  double gradient_bytes = 0;      // of all parameters
  double reduce_ns_per_byte = 0;  // gradients summed over ranks, per byte that leaves a rank
  double reduce_fixed_ns = 0;
  double optimizer_ns_per_byte = 0;  // of gradients: zeroed, measured, parameters updated
  // No two runs of equal work take equal time: a micro-batch that takes t ns on average deviates
  // from that by sqrt(spread_ns * t), its standard deviation, each run on its own. 0: not measured.
  double spread_ns = 0;
  friend bool operator==(const CostModel&, const CostModel&) = default;

  // A hop of a ring that stays inside a node, or of any other.
  HopCost hop(bool is_in_node) const;
  // Whether those two differ.
  bool has_node_hops() const;
};

// UserError that begins with `where` when a hop inside a node is negative, or dearer than one
// between nodes: lower bounds count on it.
void check_hops(const CostModel& cost, std::string_view where);

// JSON file with "schema": "weft.cost.v1" (docs/formats.md "Cost file", which says what may be left
// out). UserError on unknown keys, other missing keys, negative or non-finite values, node hops
// that are dearer than others, newer schema.
CostModel load_cost_model(const std::filesystem::path& path);
void save_cost_model(const std::filesystem::path& path, const CostModel& cost);

}  // namespace weft
