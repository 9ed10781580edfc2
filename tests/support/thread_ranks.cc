#include "comm/thread/thread_world.h"
#include "tests/support/test_ranks.h"

namespace weft::testing {

bool can_run_ranks(std::int32_t num_ranks) { return num_ranks >= 1; }

void run_test_ranks(std::int32_t num_ranks, const std::function<void(Communicator&)>& body) {
  run_thread_ranks({.num_ranks = num_ranks, .wait_limit = std::chrono::seconds(60)}, body);
}

bool keeps_results(const Communicator& comm) { return comm.rank() == Rank(0); }

}  // namespace weft::testing
