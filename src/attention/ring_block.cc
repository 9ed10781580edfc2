#include "attention/ring_block.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

void check_group(const GroupSlice& group, const Communicator* comm) {
  WEFT_CHECK(comm != nullptr, "attention: group {} needs a communicator", group.plan_group_idx);
  WEFT_CHECK(group.degree() >= 2 && group.position >= 0 && group.position < group.degree() &&
                 group.member_ranges.size() == group.ranks.size(),
             "attention: group {} has {} ranks, {} lists of ranges and this rank at position {}",
             group.plan_group_idx, group.degree(), group.member_ranges.size(), group.position);
  const Rank planned = group.ranks[static_cast<std::size_t>(group.position)];
  WEFT_CHECK(planned == comm->rank(),
             "attention: group {} has rank {} at position {}, but this is rank {}",
             group.plan_group_idx, planned.value(), group.position, comm->rank().value());
}

void append_sequence(const std::vector<TokenRange>& ranges, MemberRows& member) {
  auto& pieces = member.pieces.emplace_back();
  for (const TokenRange& range : ranges) {
    pieces.push_back({member.num_rows, range});
    member.num_rows += range.size();
  }
}

}  // namespace

RingPath::RingPath(const RingCall& call)
    : call_(call),
      degree_(call.sequences.front().group->degree()),
      position_(call.sequences.front().group->position),
      members_(static_cast<std::size_t>(degree_)) {
  const GroupSlice& first = *call.sequences.front().group;
  for (const SharedSequence& shared : call.sequences) {
    check_group(*shared.group, call.ring.comm);
    WEFT_CHECK(shared.group->ranks == first.ranks && shared.group->position == position_,
               "attention: groups {} and {} are in one ring, but differ in ranks or position",
               first.plan_group_idx, shared.group->plan_group_idx);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      append_sequence(shared.group->member_ranges[i], members_[i]);
    }
  }
}

std::size_t RingPath::visitor(std::int32_t hop) const {
  return static_cast<std::size_t>((position_ + degree_ - hop % degree_) % degree_);
}

std::int64_t RingPath::largest_rows() const {
  std::int64_t largest = 0;
  for (const MemberRows& member : members_) largest = std::max(largest, member.num_rows);
  return largest;
}

void RingPath::wait(Handle& transfer, std::string_view pass) const {
  const OperationScope scope({call_.ring.trace, "ring", call_.ring.layer}, OperationKind::kExchange,
                             pass);
  transfer.wait();
}

Handle RingPath::exchange(std::string_view operation, std::int32_t hop, ReadBuffer leaving,
                          WriteBuffer arriving) const {
  const GroupSlice& group = *call_.sequences.front().group;  // it names the whole ring
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
