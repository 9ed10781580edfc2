#include "tests/mpi/mpi_test_session.h"
#include "tests/support/comm_conformance.h"

namespace weft {
namespace {

TransportUnderTest transport(const std::string& name, const mpi_transport::WorldSettings& base) {
  return {.name = name,
          .rank_counts = {test_session().size()},
          .run = [base](std::int32_t num_ranks, std::chrono::nanoseconds wait_limit,
                        const std::function<void(Communicator&)>& body) {
            ASSERT_EQ(num_ranks, test_session().size());
            mpi_transport::WorldSettings settings = base;
            settings.wait_limit = wait_limit;
            mpi_transport::run_world(test_session(), settings, body);
          }};
}

INSTANTIATE_TEST_SUITE_P(Mpi, CommConformance, testing::Values(transport("Mpi", {})));

// Payloads beyond the largest count of MPI go in pieces: here with a limit that any message meets.
INSTANTIATE_TEST_SUITE_P(MpiInPieces, CommConformance,
                         testing::Values(transport("MpiInPieces", {.max_piece_bytes = 1000})));

}  // namespace
}  // namespace weft
