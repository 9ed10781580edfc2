// mpi_world.h in a build without MPI; CMake chooses it.
#include "base/error.h"
#include "comm/mpi/mpi_world.h"

namespace weft {

bool mpi_is_built_in() { return false; }

std::string mpi_library_version() { return "none"; }

void run_mpi_rank(const MpiWorldOptions& /*options*/,
                  const std::function<void(Communicator&)>& /*body*/) {
  throw_user_error(
      "this build has no MPI: install libopenmpi-dev and openmpi-bin, configure again (the line "
      "\"MPI:\" says what CMake found) and build");
}

}  // namespace weft
