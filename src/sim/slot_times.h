// What each member of each slot computes and exchanges in one layer, and how long the slot's passes
// last under a given sharing of links.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/ring_shares.h"
#include "plan/step_plan.h"
#include "sim/step_simulator.h"

namespace weft {

// Part of a member's layer that one ring can delay.
struct RingPart {
  std::int32_t ring = 0;
  double exchange_ns = 0;  // all hops of a layer forward, links to itself
  double hidden_ns = 0;    // of it, behind the ring's attention
  std::int32_t degree = 2;
};

struct SlotMember {
  std::int32_t rank = 0;
  std::int32_t micro_batch_idx = 0;
  Tokens tokens;
  double offload_ratio = 0;
  double compute_ns = 0;  // a layer forward without exchange
  double copy_ns = 0;     // offload, a layer
  std::uint32_t first_part = 0;
  std::uint32_t num_parts = 0;
};

// Where a ring's hops go.
struct RingRoute {
  std::vector<std::int32_t> sender_nodes;  // one for each link that leaves a node
  double tokens = 0;                       // S, of all its sequences
  double node_tokens = 0;                  // sent per layer in a step, inside nodes
  double nic_tokens = 0;                   // and between them
};

struct PassTime {
  Nanoseconds forward;
  Nanoseconds backward;
};

class SlotTimes {
 public:
  explicit SlotTimes(const SimulationInput& input);

  std::span<const SlotMember> members(std::int32_t slot) const;
  std::span<const RingPart> parts(const SlotMember& member) const;
  const std::vector<RingRoute>& routes() const { return routes_; }
  // Rings that leave a node, of a slot.
  std::span<const std::int32_t> routed_rings(std::int32_t slot) const;

  // Of the slot in one virtual stage. `slowdown` [rings]: how many times longer a ring's hops take.
  PassTime pass_time(std::int32_t slot, std::int32_t virtual_stage,
                     std::span<const double> slowdown) const;
  // Exchange of a member's layer forward that its attention does not hide.
  double exposed_ns(const SlotMember& member, std::span<const double> slowdown) const;
  // The same of a layer backward.
  double exposed_backward_ns(const SlotMember& member, std::span<const double> slowdown) const;

 private:
  void add_routes();
  void place_members();
  void add_members();
  void add_parts(std::span<const RingShare> shares, std::span<const std::int32_t> rings,
                 SlotMember& member);
  void finish_routes();
  PassTime single_stage_time(std::int32_t slot, std::span<const double> slowdown) const;

  const SimulationInput& input_;
  RingShares shares_;
  std::vector<std::uint32_t> first_member_;  // [slots + 1]
  std::vector<SlotMember> members_;          // by slot
  std::vector<RingPart> parts_;
  std::vector<RingRoute> routes_;                   // [rings]
  std::vector<std::uint32_t> first_routed_;         // [slots + 1]
  std::vector<std::int32_t> routed_;                // rings by slot
  std::vector<std::vector<double>> member_tokens_;  // [rings][position], while building
};

}  // namespace weft
