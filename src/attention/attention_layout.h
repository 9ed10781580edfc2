// AttentionLayout: which rows of a micro-batch's [T, ...] tensors belong to which sequence, whole
// or shared, and which shared sequences travel together.
//
// Shared sequences whose groups follow each other in plan order and have the same ranks in the same
// ring order are one ring, as `evaluate` counts them. A group lies in one slot and a rank has one
// micro-batch per slot, so every member of such groups holds them all in one micro-batch and finds
// the same rings from its own slice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan_slice.h"

namespace weft {

// Rows [row, row + range.size()) hold positions `range` of one sequence.
struct PieceRows {
  std::int64_t row = 0;
  TokenRange range;
};

struct SharedSequence {
  const GroupSlice* group = nullptr;  // into the PlanSlice, which must outlive the layout
  std::vector<PieceRows>
      pieces;  // this rank's, in the order of group->member_ranges[group->position]
};

struct AttentionLayout {
  std::int64_t num_rows = 0;           // T
  std::int32_t slot_idx = -1;          // for message labels
  std::vector<PieceRows> whole;        // each a whole sequence: range.begin == 0
  std::vector<SharedSequence> shared;  // by plan_group_idx
};

AttentionLayout make_attention_layout(const PlanSlice& slice, const MicroBatch& micro_batch);

// layout.shared cut into its rings, in the order in which they run; none is empty. Points into the
// layout.
std::vector<std::span<const SharedSequence>> rings_of(const AttentionLayout& layout);

}  // namespace weft
