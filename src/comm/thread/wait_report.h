// The texts of the thread transport's failures: who waits for whom, for what, and what the awaited
// ranks do meanwhile. Pure functions of the world's state; the caller holds the world's lock.
#pragma once

#include <span>
#include <string>

#include "comm/thread/world.h"

namespace weft::thread_transport {

// `transfer` has waited to its limit. Follows the awaited ranks from one to the next, so that a
// rank which holds up a whole chain is named whoever of the chain reports first.
std::string timeout_report(std::span<const RankState> ranks, const PendingTransfer& transfer,
                           std::chrono::nanoseconds wait_limit, Clock::time_point now);

// The peer of `op` has finished, so nobody will ever match `op`.
std::string finished_report(const PostedOp& op);

// Two operations met whose labels or sizes differ.
std::string mismatch_report(const PostedOp& a, const PostedOp& b);

// `transfer` was dropped before it was waited on.
std::string dropped_report(const PendingTransfer& transfer);

}  // namespace weft::thread_transport
