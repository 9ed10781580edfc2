#include "bench/on_mpi.h"
#include "comm/mpi/mpi_world.h"

namespace weft::bench {

bool has_mpi() { return mpi_is_built_in(); }

void run_on_mpi(const std::function<void(Communicator&)>& body) { run_mpi_rank({}, body); }

}  // namespace weft::bench
