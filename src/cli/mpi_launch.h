// `weft train --launch mpi --ranks N ...`: starts mpirun with N processes on this host, each
// `weft train ...` again, which becomes weft-engine, and stays as their parent, so that signals
// mean the same as with threads: SIGTERM, SIGUSR1, SIGHUP and the first SIGINT let the ranks finish
// the step, save and end with 75; a second SIGINT ends them at once. Returns the job's exit code.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct MpiJob {
  std::string program;                 // path of weft
  std::vector<std::string> arguments;  // of `weft train`, without --launch
  int num_ranks = 1;
};

// UserError: mpirun is not installed.
int run_mpi_job(const MpiJob& job);

// What run_mpi_job executes; `num_cores`: that this process may use.
std::vector<std::string> mpirun_command(const std::string& mpirun, const MpiJob& job,
                                        int num_cores);
// Open MPI refuses root without these two.
std::vector<std::string> root_variables();

}  // namespace weft
