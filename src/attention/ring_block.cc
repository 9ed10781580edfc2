#include "attention/ring_block.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

std::vector<PieceRows> rows_of_block(const std::vector<TokenRange>& ranges) {
  std::vector<PieceRows> pieces;
  std::int64_t row = 0;
  for (const TokenRange& range : ranges) {
    pieces.push_back({row, range});
    row += range.size();
  }
  return pieces;
}

std::int64_t count_rows(const std::vector<PieceRows>& pieces) {
  return pieces.empty() ? 0 : pieces.back().row + pieces.back().range.size();
}

}  // namespace

RingPath::RingPath(const RingCall& call)
    : call_(call), degree_(call.shared.group->degree()), position_(call.shared.group->position) {
  const GroupSlice& group = *call.shared.group;
  WEFT_CHECK(call.ring.comm != nullptr, "attention: group {} needs a communicator",
             group.plan_group_idx);
  WEFT_CHECK(degree_ >= 2 && position_ >= 0 && position_ < degree_ &&
                 group.member_ranges.size() == group.ranks.size(),
             "attention: group {} has {} ranks, {} lists of ranges and this rank at position {}",
             group.plan_group_idx, degree_, group.member_ranges.size(), position_);
  const Rank planned = group.ranks[static_cast<std::size_t>(position_)];
  WEFT_CHECK(planned == call.ring.comm->rank(),
             "attention: group {} has rank {} at position {}, but this is rank {}",
             group.plan_group_idx, planned.value(), position_, call.ring.comm->rank().value());
  for (const auto& ranges : group.member_ranges) members_.push_back(rows_of_block(ranges));
}

std::size_t RingPath::visitor(std::int32_t hop) const {
  return static_cast<std::size_t>((position_ + degree_ - hop % degree_) % degree_);
}

std::int64_t RingPath::num_rows(std::int32_t hop) const { return count_rows(visitors(hop)); }

std::int64_t RingPath::largest_rows() const {
  std::int64_t largest = 0;
  for (const auto& pieces : members_) largest = std::max(largest, count_rows(pieces));
  return largest;
}

Handle RingPath::exchange(std::string_view operation, std::int32_t hop, ReadBuffer leaving,
                          WriteBuffer arriving) const {
  const GroupSlice& group = *call_.shared.group;
  const Rank next = group.ranks[static_cast<std::size_t>((position_ + 1) % degree_)];
  const Rank previous = group.ranks[visitor(1)];
  const OpLabel label{.operation = operation,
                      .step = call_.ring.step,
                      .slot = call_.slot_idx,
                      .layer = call_.ring.layer,
                      .group = group.plan_group_idx,
                      .hop = hop};
  const SendOp send{next, leaving.data, Bytes(leaving.bytes)};
  const RecvOp recv{previous, arriving.data, Bytes(arriving.bytes)};
  return call_.ring.comm->exchange(Channel::kRing, label, {&send, 1}, {&recv, 1});
}

}  // namespace weft
