#include "comm/thread/thread_world.h"
#include "tests/support/comm_conformance.h"

namespace weft {
namespace {

INSTANTIATE_TEST_SUITE_P(Thread, CommConformance,
                         testing::Values(TransportUnderTest{
                             .name = "Thread",
                             .rank_counts = {1, 2, 3, 4, 5, 7, 8},
                             .run = [](std::int32_t num_ranks, std::chrono::nanoseconds wait_limit,
                                       const std::function<void(Communicator&)>& body) {
                               run_thread_ranks({.num_ranks = num_ranks, .wait_limit = wait_limit},
                                                body);
                             }}));

}  // namespace
}  // namespace weft
