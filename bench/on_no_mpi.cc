#include "base/error.h"
#include "bench/on_mpi.h"

namespace weft::bench {

bool has_mpi() { return false; }

void run_on_mpi(const std::function<void(Communicator&)>&) {
  throw_user_error(
      "bench: this build has no mpi transport; install libopenmpi-dev and build again");
}

}  // namespace weft::bench
