// The texts of a transport's failures, the same for every transport: who waits for whom, for what,
// and what the awaited ranks do meanwhile and did last. Pure functions of values.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "comm/activity.h"

namespace weft {

// A transfer of `rank` that is not complete.
struct OpenTransfer {
  Rank rank;
  OpLabel label;
  Channel channel{};
  std::vector<OutstandingSum> outstanding;
};

// One side of a message.
struct MessageSide {
  Rank rank;
  Bytes bytes;
  std::string label;  // describe(OpLabel)
};

// `transfer` has waited to its limit. Follows the awaited ranks from one to the next, so that a
// rank which holds up a whole chain is named whoever of the chain reports first; the last line
// names the ranks to look at. `activity_of` is asked about `transfer.rank` too.
std::string timeout_report(const OpenTransfer& transfer, Nanoseconds waited,
                           std::chrono::nanoseconds wait_limit,
                           const std::function<RankActivity(Rank)>& activity_of);

// The peer of one operation has finished, so nobody will ever match it.
std::string finished_report(const OpenTransfer& transfer, Rank peer, bool is_send, Bytes bytes);

// Two operations met whose labels or sizes differ.
std::string mismatch_report(Channel channel, const MessageSide& send, const MessageSide& recv);

// `transfer` was dropped before it was waited on.
std::string dropped_report(const OpenTransfer& transfer);

}  // namespace weft
