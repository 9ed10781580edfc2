// PlanSlice: the part of a StepPlan that one rank needs, plus the hash of the whole.
//
// Planning happens on one rank; every other rank receives its slice. A slice holds the rank's own
// micro-batches, the sequences they touch, and of each group it is in every member's ranges,
// because the sizes of all messages follow from them. sequence_idx and group_idx inside a slice
// point into the slice; slot_idx and plan_group_idx stay plan-wide, so that all members label a
// message alike and run their groups in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

inline constexpr std::uint32_t kSliceVersion = 1;

struct GroupSlice {
  std::int32_t plan_group_idx = 0;  // index in StepPlan::groups: the global run order in a slot
  std::int32_t sequence_idx = 0;    // into PlanSlice::sequences
  std::int32_t position = 0;        // this rank's place in the ring
  std::vector<Rank> ranks;          // ring order, size D
  std::vector<std::vector<TokenRange>>
      member_ranges;  // [D]: each member's pieces, in the order of its rows
  std::int32_t degree() const { return static_cast<std::int32_t>(ranks.size()); }
  friend bool operator==(const GroupSlice&, const GroupSlice&) = default;
};

// Neighbouring groups of the same ranks, of one slot, run over one ring.
bool share_a_ring(const GroupSlice& group, const GroupSlice& next);

struct PlanSlice {
  Hash128 plan_hash;
  std::int64_t step = 0;
  Rank rank;
  std::int32_t num_ranks = 1;
  LossWeighting weighting = LossWeighting::kToken;
  std::int64_t total_weight = 0;        // W of the whole step
  std::vector<SequenceSpec> sequences;  // those this rank touches, canonical order
  std::vector<GroupSlice> groups;       // those this rank is in, by plan_group_idx
  std::vector<MicroBatch>
      micro_batches;  // this rank's, in execution order; indices point into this slice
  friend bool operator==(const PlanSlice&, const PlanSlice&) = default;
};

// REQUIRES: validate(plan) has passed and `hash` is plan_hash(plan).
PlanSlice slice_plan(const StepPlan& plan, const Hash128& hash, Rank rank);
// Message layout: docs/formats.md "Plan slice". decode_slice throws UserError naming `source` for a
// damaged frame, an impossible count, or an index that points outside the slice.
std::vector<std::byte> encode_slice(const PlanSlice& slice);
PlanSlice decode_slice(std::span<const std::byte> bytes, const std::string& source);

}  // namespace weft
