// The `mpi` transport: the ranks of a run are the processes of one MPI job (Open MPI), on one host
// or many. Each process calls run_mpi_rank once; MPI's own types are seen by this folder alone. A
// build without MPI has the same functions (no_mpi.cc): mpi_is_built_in() is false and
// run_mpi_rank() a UserError.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace weft {

struct MpiWorldOptions {
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);  // of every wait()
  // Compare label and size of every message on both sides (one small message more per message).
  // Off: messages of different sizes never meet, so their ranks fail at the wait limit; other
  // disagreements go unseen, and wait() of a send may return before its receive is posted.
  bool check_messages = true;
};

bool mpi_is_built_in();
std::string mpi_library_version();  // "Open MPI v4.1.4, ..."; "none" in a build without MPI

// Joins the MPI job that this process was started in, runs body as its rank, and leaves the job.
// When a rank fails, all leave: the first to fail rethrows its own exception, the others throw
// PeerFailure with that rank and its reason, within the wait limit; a rank that cannot be ended in
// an orderly way (it hangs outside comm) is ended with the whole job. UserError: MPI does not give
// the thread level that is needed. REQUIRES: called once per process.
void run_mpi_rank(const MpiWorldOptions& options, const std::function<void(Communicator&)>& body);

}  // namespace weft
