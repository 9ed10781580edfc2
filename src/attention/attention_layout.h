// AttentionLayout: which rows of a micro-batch's [T, ...] tensors belong to which sequence, whole
// or shared.
#pragma once

#include <cstdint>
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
  std::vector<SharedSequence> shared;  // by plan_group_idx: the order in which the rings run
};

AttentionLayout make_attention_layout(const PlanSlice& slice, const MicroBatch& micro_batch);

}  // namespace weft
