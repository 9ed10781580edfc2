#include "attention/attention_layout.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

std::size_t checked_index(std::int32_t index, std::size_t size, const char* what) {
  WEFT_CHECK(index >= 0 && static_cast<std::size_t>(index) < size,
             "attention layout: {} index {} of a plan slice that has {}", what, index, size);
  return static_cast<std::size_t>(index);
}

SharedSequence& shared_sequence_of(AttentionLayout& layout, const GroupSlice& group) {
  const auto found =
      std::find_if(layout.shared.begin(), layout.shared.end(),
                   [&](const SharedSequence& shared) { return shared.group == &group; });
  if (found != layout.shared.end()) return *found;
  return layout.shared.emplace_back(SharedSequence{&group, {}});
}

// The ring computes peers' buffer sizes from member_ranges, so rows in any other order would be
// sent as garbage.
void check_rows_follow_member_ranges(const SharedSequence& shared) {
  const GroupSlice& group = *shared.group;
  WEFT_CHECK_EQ(group.member_ranges.size(), group.ranks.size(),
                "attention layout: group {} must list ranges for each member",
                group.plan_group_idx);
  const auto& expected =
      group.member_ranges[checked_index(group.position, group.ranks.size(), "ring position")];
  WEFT_CHECK(
      std::equal(
          shared.pieces.begin(), shared.pieces.end(), expected.begin(), expected.end(),
          [](const PieceRows& piece, const TokenRange& range) { return piece.range == range; }),
      "attention layout: the micro-batch's {} pieces of group {} differ from the {} ranges "
      "that the group lists for ring position {}",
      shared.pieces.size(), group.plan_group_idx, expected.size(), group.position);
}

}  // namespace

AttentionLayout make_attention_layout(const PlanSlice& slice, const MicroBatch& micro_batch) {
  AttentionLayout layout;
  layout.slot_idx = micro_batch.slot_idx;
  for (const Piece& piece : micro_batch.pieces) {
    const SequenceSpec& sequence =
        slice.sequences[checked_index(piece.sequence_idx, slice.sequences.size(), "sequence")];
    const PieceRows rows{layout.num_rows, piece.range};
    layout.num_rows += piece.range.size();
    if (piece.group_idx == kNoGroup) {
      const TokenRange whole{0, sequence.tokens.value()};
      WEFT_CHECK_EQ(piece.range, whole,
                    "attention layout: a piece of sequence {} without a group must hold all of it",
                    sequence.id);
      layout.whole.push_back(rows);
    } else {
      const GroupSlice& group =
          slice.groups[checked_index(piece.group_idx, slice.groups.size(), "group")];
      shared_sequence_of(layout, group).pieces.push_back(rows);
    }
  }
  for (const SharedSequence& shared : layout.shared) check_rows_follow_member_ranges(shared);
  std::sort(layout.shared.begin(), layout.shared.end(),
            [](const SharedSequence& a, const SharedSequence& b) {
              return a.group->plan_group_idx < b.group->plan_group_idx;
            });
  return layout;
}

std::vector<std::span<const SharedSequence>> rings_of(const AttentionLayout& layout) {
  const std::span<const SharedSequence> shared(layout.shared);
  std::vector<std::span<const SharedSequence>> rings;
  for (std::size_t first = 0; first < shared.size();) {
    std::size_t end = first + 1;
    while (end < shared.size() && share_a_ring(*shared[end - 1].group, *shared[end].group)) ++end;
    rings.push_back(shared.subspan(first, end - first));
    first = end;
  }
  return rings;
}

}  // namespace weft
