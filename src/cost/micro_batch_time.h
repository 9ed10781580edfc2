// The time of one micro-batch on one rank (design section 3 "Time"; ByteScale Eq. 3 with the
// exchange explicit).
//
// Per layer forward: sum over the shares of (a * work + b * tokens), plus for a ring of D ranks D -
// 1 further steps, plus c once, all divided by the rank's speed, plus for each ring the exchange
// that its own attention cannot hide. K and V pieces make D-1 hops while attention runs D ring
// steps; the first D-1 of them hide the hops. All of it is multiplied by num_layers * (1 +
// backward_ratio) and rounded up, so that a sum of micro-batch times is never below the sum of the
// exact ones: lower bounds need that.
#pragma once

#include <cstdint>
#include <span>

#include "cost/cost_model.h"

namespace weft {

// What a rank computes in a micro-batch of a whole sequence (degree 1, no exchange), or of all
// sequences that one ring of ranks shares: their K and V travel together, hop by hop.
struct RingShare {
  std::int64_t work = 0;    // causal pairs of this rank's queries
  Tokens tokens{};          // this rank's tokens
  std::int32_t degree = 1;  // ranks of the ring
  // Most tokens that a member holds, summed over the ring's sequences; unused for degree 1.
  Tokens largest_member{};
  bool is_in_node =
      false;  // all ranks of the ring share a node: its hops cost what they cost there
};

// One layer forward of so many causal pairs and tokens at speed 1, fixed cost left out.
inline double compute_ns(const CostModel& cost, std::int64_t work, Tokens tokens) {
  return cost.attention_ns_per_pair * static_cast<double>(work) +
         cost.linear_ns_per_token * static_cast<double>(tokens.value());
}

// (D-1) hops, each as long as the largest member's K and V need: one layer forward.
double exchange_ns(const CostModel& cost, std::int32_t degree, Tokens largest_member,
                   bool is_in_node = false);

// One layer's attention of this share on a rank of speed 1, its further ring steps included.
double attention_ns(const CostModel& cost, const RingShare& share);

// Part of exchange_ns that the attention of this share cannot hide on a rank of this speed.
double exposed_exchange_ns(const CostModel& cost, const RingShare& share, double speed);

// num_layers * (1 + backward_ratio) * layer_forward_ns, rounded up.
Nanoseconds all_layers(const CostModel& cost, double layer_forward_ns);

Nanoseconds micro_batch_time(const CostModel& cost, std::span<const RingShare> shares,
                             double speed);
// The same for one layer forward, not rounded.
double layer_forward_time_ns(const CostModel& cost, std::span<const RingShare> shares,
                             double speed);
// One layer's activations of these tokens, the share `offload_ratio` of them, copied to the host or
// back; 0 where the cost does not say how fast that is.
double offload_copy_ns(const CostModel& cost, Tokens tokens, double offload_ratio);
// A micro-batch with `copy_ns` of copies in every layer but two (ByteScale section 5.2): a layer
// lasts as long as its copy where that is longer. All layers, rounded up; all_layers when copies
// are hidden.
Nanoseconds offloaded_time(const CostModel& cost, double layer_forward_ns, double copy_ns);
// `num_layers` layers forward, or backward, rounded up.
Nanoseconds forward_time(const CostModel& cost, double layer_forward_ns, std::int32_t num_layers);
Nanoseconds backward_time(const CostModel& cost, double layer_forward_ns, std::int32_t num_layers);

}  // namespace weft
