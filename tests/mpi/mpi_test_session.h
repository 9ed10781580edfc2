// The MPI session that the tests of one process share: MPI starts once per process, the tests make
// many worlds in it.
#pragma once

#include <functional>

#include "comm/mpi/session.h"

namespace weft {

// REQUIRES: main() has made the session.
mpi_transport::Session& test_session();

}  // namespace weft
