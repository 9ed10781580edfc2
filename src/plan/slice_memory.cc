#include "plan/slice_memory.h"

#include <algorithm>
#include <set>

namespace weft {
namespace {

std::int64_t member_rows(const GroupSlice& group, std::size_t member) {
  std::int64_t rows = 0;
  for (const TokenRange& range : group.member_ranges[member]) rows += range.size();
  return rows;
}

// Rings run one after another, so the largest one counts. Neighbouring groups of the same ranks are
// one ring.
std::int64_t largest_ring_rows(const PlanSlice& slice, const std::set<std::int32_t>& groups) {
  std::int64_t largest = 0;
  std::vector<std::int64_t> rows;  // of the current ring, by member
  const GroupSlice* previous = nullptr;
  for (const std::int32_t group_idx : groups) {
    const GroupSlice& group = slice.groups.at(static_cast<std::size_t>(group_idx));
    if (previous == nullptr || !share_a_ring(*previous, group)) {
      rows.assign(group.member_ranges.size(), 0);
    }
    for (std::size_t member = 0; member < rows.size(); ++member) {
      rows[member] += member_rows(group, member);
      largest = std::max(largest, rows[member]);
    }
    previous = &group;
  }
  return largest;
}

}  // namespace

std::vector<MicroBatchSize> micro_batch_sizes(const PlanSlice& slice) {
  std::vector<MicroBatchSize> sizes;
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    MicroBatchSize size;
    size.offload_ratio = micro_batch.offload_ratio;
    std::set<std::int32_t> groups;  // slice.groups ascend by plan_group_idx, so these do too
    for (const Piece& piece : micro_batch.pieces) {
      const SequenceSpec& sequence =
          slice.sequences.at(static_cast<std::size_t>(piece.sequence_idx));
      size.tokens += piece.range.size();
      size.targets += std::min(piece.range.size(), sequence.num_targets);
      if (piece.group_idx != kNoGroup) groups.insert(piece.group_idx);
    }
    size.ring_rows = largest_ring_rows(slice, groups);
    sizes.push_back(size);
  }
  return sizes;
}

MemoryParts predict_peak(const MemoryShape& shape, const PlanSlice& slice) {
  MemoryParts largest = predict_peak(shape, MicroBatchSize());
  for (const MicroBatchSize& size : micro_batch_sizes(slice)) {
    const MemoryParts parts = predict_peak(shape, size);
    if (parts.total() > largest.total()) largest = parts;
  }
  return largest;
}

}  // namespace weft
