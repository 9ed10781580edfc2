// DealOrder: which rank gets the next whole sequence when the last ones are dealt out, longest
// first: the rank that would end first with it, where a sequence that its open micro-batch has no
// room for costs the fixed cost of another one.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/units.h"

namespace weft {

class DealOrder {
 public:
  // What a rank takes next and until when it is busy.
  struct RankState {
    std::int64_t end = 0;       // ns, with a sequence of mean length: slow ranks come later
    std::int64_t fixed_ns = 0;  // of another micro-batch, at the rank's speed
    Tokens room;                // of the open micro-batch; 0: none is open
    Tokens capacity;            // of another one
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  explicit DealOrder(std::vector<RankState> ranks);

  // The rank for a sequence of `tokens`; of equal ones the first. kNone when none holds it.
  // REQUIRES: tokens never grow from call to call.
  std::size_t choose(Tokens tokens);
  bool needs_micro_batch(std::size_t rank, Tokens tokens) const {
    return ranks_[rank].room < tokens;
  }
  // After the rank took something.
  void update(std::size_t rank, std::int64_t end, Tokens room);

 private:
  struct Entry {
    std::int64_t key = 0;
    std::size_t rank = 0;
    std::uint32_t version = 0;  // of the rank: older entries no longer count
    bool operator>(const Entry& other) const {
      return key != other.key ? key > other.key : rank > other.rank;
    }
  };
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  void push(std::size_t rank);
  void drop_stale(Heap& heap) const;

  std::vector<RankState> ranks_;
  std::vector<std::uint32_t> versions_;
  Tokens tokens_;   // of the last call
  Heap with_room_;  // by end: ranks whose open micro-batch has room for `tokens_`
  Heap waiting_;    // by room, most first: the others with an open one
  Heap opening_;    // by end with another micro-batch: all ranks whose capacity is enough
  Heap too_small_;  // by capacity, largest first: the others
};

}  // namespace weft
