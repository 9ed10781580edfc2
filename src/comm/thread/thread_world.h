// The `thread` transport: the ranks of a run are threads of one process, and a message is one
// memcpy made by whichever side arrives second. The embedded default, and what most tests use.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "comm/communicator.h"

namespace weft {

struct ThreadWorldOptions {
  std::int32_t num_ranks = 1;
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);  // of every wait()
};

// Runs body once per rank, each on its own thread, and joins them all. If ranks throw, the others
// are ended by abort(), and the exception of the first rank to fail (the root cause) is rethrown;
// exceptions that only report another rank's abort never win over it.
void run_thread_ranks(const ThreadWorldOptions& options,
                      const std::function<void(Communicator&)>& body);

}  // namespace weft
