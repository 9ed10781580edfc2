// Exchange and reductions per transport. Started plainly: two thread ranks. Started by mpirun with
// --mpi: one rank of the job.
#include <algorithm>

#include "bench/comm_rows.h"
#include "bench/harness/bench_main.h"
#include "bench/on_mpi.h"
#include "comm/thread/thread_world.h"

namespace weft::bench {
namespace {

bool take_option(int& argc, char** argv, std::string_view option) {
  char** const end =
      std::remove_if(argv + 1, argv + argc, [&](const char* word) { return word == option; });
  const bool found = end != argv + argc;
  argc = static_cast<int>(end - argv);
  return found;
}

int run(int argc, char** argv) {
  const bool is_mpi = take_option(argc, argv, "--mpi");
  const Selection selection = parse_selection(argc, argv);
  const std::string transport = is_mpi ? "mpi" : "thread";
  if (selection.list) {
    if (is_mpi && !has_mpi()) return 0;
    for (const std::string& name : comm_row_names(transport)) {
      if (selection.wants(name)) fmt::print("{}\n", name);
    }
    return 0;
  }
  const auto body = [&](Communicator& comm) { run_comm_rows(comm, selection); };
  if (is_mpi) {
    run_on_mpi(body);
  } else {
    run_thread_ranks({.num_ranks = 2}, body);
  }
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
