// The ranks of an MPI job, for a bench that may have been built without MPI.
#pragma once

#include <functional>

#include "comm/communicator.h"

namespace weft::bench {

bool has_mpi();
// UserError in a build without MPI.
void run_on_mpi(const std::function<void(Communicator&)>& body);

}  // namespace weft::bench
