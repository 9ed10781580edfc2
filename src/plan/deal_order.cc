#include "plan/deal_order.h"

#include <utility>

#include "base/error.h"

namespace weft {
namespace {

constexpr Tokens kMostTokens(std::int64_t{1} << 62);

}  // namespace

DealOrder::DealOrder(std::vector<RankState> ranks)
    : ranks_(std::move(ranks)), versions_(ranks_.size(), 0), tokens_(kMostTokens) {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) push(rank);
}

void DealOrder::push(std::size_t rank) {
  const RankState& state = ranks_[rank];
  const std::uint32_t version = versions_[rank];
  if (state.room >= tokens_) {
    with_room_.push({state.end, rank, version});
  } else if (state.room > Tokens(0)) {
    waiting_.push({-state.room.value(), rank, version});
  }
  if (state.capacity >= tokens_) {
    opening_.push({state.end + state.fixed_ns, rank, version});
  } else {
    too_small_.push({-state.capacity.value(), rank, version});
  }
}

void DealOrder::drop_stale(Heap& heap) const {
  while (!heap.empty() && heap.top().version != versions_[heap.top().rank]) heap.pop();
}

std::size_t DealOrder::choose(Tokens tokens) {
  WEFT_CHECK(tokens <= tokens_, "sequences are dealt longest first: {} after {} tokens", tokens,
             tokens_);
  tokens_ = tokens;
  for (; !waiting_.empty() && -waiting_.top().key >= tokens.value(); waiting_.pop()) {
    const Entry& entry = waiting_.top();
    with_room_.push({ranks_[entry.rank].end, entry.rank, entry.version});
  }
  for (; !too_small_.empty() && -too_small_.top().key >= tokens.value(); too_small_.pop()) {
    const Entry& entry = too_small_.top();
    const RankState& state = ranks_[entry.rank];
    opening_.push({state.end + state.fixed_ns, entry.rank, entry.version});
  }
  drop_stale(with_room_);
  drop_stale(opening_);
  if (with_room_.empty()) return opening_.empty() ? kNone : opening_.top().rank;
  if (opening_.empty() || !(with_room_.top() > opening_.top())) return with_room_.top().rank;
  return opening_.top().rank;
}

void DealOrder::update(std::size_t rank, std::int64_t end, Tokens room) {
  ++versions_[rank];
  ranks_[rank].end = end;
  ranks_[rank].room = room;
  push(rank);
}

}  // namespace weft
