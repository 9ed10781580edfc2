// Virtual ranks: N ranks as threads of this process, each with a clock of its own that runs as if
// it had a core and a network link to itself. A machine of few cores measures what the real code
// would take on N ranks.
//
// A rank's clock is advanced by the CPU time of its thread outside the communicator. What a rank
// sends leaves over its one link, a message after the other in the order in which they were posted:
// a message that starts at time t has left, and its buffer is free, at t + bytes / bandwidth, and
// it arrives latency later; a message to oneself costs nothing. wait() puts the clock forward to
// the latest of these. Ranks compute one at a time (whoever computes holds a baton and hands it on
// while it waits), so that shared caches, memory bandwidth and cores falsify nothing: compute on
// one thread per rank, whatever else runs is not counted. All of them, and the threads that they
// start, stay on the caller's core: cores of one machine differ in speed when others share it, and
// ranks that must be alike would not be. Time spent asleep, in other threads or on the disk is not
// counted either.
//
// What is computed is exactly what the thread transport gives. now() and stats().blocked are times
// of the rank's clock; wait_limit is wall time, and covers the others' turns with the baton.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "comm/communicator.h"

namespace weft {

struct VirtualLink {
  double bytes_per_second = 10e9;
  std::chrono::nanoseconds latency = std::chrono::microseconds(10);
};

struct VirtualWorldOptions {
  std::int32_t num_ranks = 1;
  VirtualLink link = {};
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);
};

// As run_thread_ranks. UserError unless the bandwidth is positive and the latency is not negative.
void run_virtual_ranks(const VirtualWorldOptions& options,
                       const std::function<void(Communicator&)>& body);

}  // namespace weft
