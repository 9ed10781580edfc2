// What a rank computes in a micro-batch, ring by ring: the input of cost/micro_batch_time.
//
// Groups that follow each other in a slot with the same ranks are one ring: a packed micro-batch
// that is shared as a whole pays each hop once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cost/micro_batch_time.h"
#include "plan/step_plan.h"

namespace weft {

inline constexpr std::int32_t kNoRing = -1;

class RingShares {
 public:
  // REQUIRES: validate(plan) passes; the plan outlives this. No ring counts as inside a node.
  explicit RingShares(const StepPlan& plan);
  RingShares(const StepPlan& plan, const ClusterSpec& cluster);
  // `shared`: all micro-batches of the plan that hold a piece of a group.
  RingShares(const StepPlan& plan, const ClusterSpec& cluster,
             std::span<const MicroBatch* const> shared);

  std::int32_t num_rings() const { return num_rings_; }
  std::span<const Rank> ranks_of(std::int32_t ring) const;
  std::int32_t slot_of(std::int32_t ring) const;
  bool is_in_node(std::int32_t ring) const { return is_in_node_[static_cast<std::size_t>(ring)]; }

  // One share for each whole sequence and each ring of a micro-batch; `rings`, if given, gets the
  // ring of each share (kNoRing: whole). UserError when the work of a ring exceeds 2^63.
  void collect(const MicroBatch& micro_batch, std::vector<RingShare>& shares,
               std::vector<std::int32_t>* rings = nullptr) const;

 private:
  const StepPlan& plan_;
  std::int32_t num_rings_ = 0;
  std::vector<Tokens> largest_members_;      // [groups]: most tokens that a member holds
  std::vector<std::int32_t> ring_of_group_;  // [groups]
  std::vector<std::int32_t> group_of_ring_;  // [rings]: the first of them
  std::vector<bool> is_in_node_;             // [rings]: all its ranks share a node
};

[[noreturn]] void refuse_sum(std::string_view what);

// Adds, or UserError when the sum does not fit: both times and work come near 2^63 for one sequence
// of 2^32 tokens.
inline void add_checked(std::int64_t& sum, std::int64_t value, std::string_view what) {
  if (__builtin_add_overflow(sum, value, &sum)) refuse_sum(what);
}

}  // namespace weft
