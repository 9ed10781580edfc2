#include "base/error.h"
#include "tests/mpi/mpi_test_session.h"
#include "tests/support/test_ranks.h"

namespace weft::testing {

bool can_run_ranks(std::int32_t num_ranks) { return num_ranks == test_session().size(); }

void run_test_ranks(std::int32_t num_ranks, const std::function<void(Communicator&)>& body) {
  WEFT_CHECK_EQ(num_ranks, test_session().size(), "this job has another number of processes");
  mpi_transport::run_world(test_session(), {}, body);
}

bool keeps_results(const Communicator&) { return true; }

}  // namespace weft::testing
