// How a test of many ranks gets them. The same test sources are linked with thread_ranks.cc, where
// the ranks are threads of the test, and with tests/mpi/mpi_ranks.cc, where they are processes of
// an MPI job and every process runs the test.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/communicator.h"

namespace weft::testing {

// Whether a world of so many ranks can be made here: any as threads, the job's size under MPI.
bool can_run_ranks(std::int32_t num_ranks);
// Runs body on each rank and rethrows the root cause. REQUIRES: can_run_ranks(num_ranks).
void run_test_ranks(std::int32_t num_ranks, const std::function<void(Communicator&)>& body);
// Whether this rank may write what the test looks at after run_test_ranks: rank 0 of threads, every
// process of a job.
bool keeps_results(const Communicator& comm);

}  // namespace weft::testing
