// Built when there is no MPI.
#include "base/error.h"
#include "comm/mpi/mpi_world.h"

namespace weft {

bool mpi_is_built_in() { return false; }
std::string mpi_library_version() { return "none"; }

void run_mpi_rank(const MpiWorldOptions&, const std::function<void(Communicator&)>&) {
  throw_user_error(
      "this build has no MPI; install libopenmpi-dev and openmpi-bin and build again, or train on "
      "threads of one process with --ranks");
}

}  // namespace weft
