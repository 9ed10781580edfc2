// `weft train ...` and `weft profile ...` hand over to weft-engine, which lies beside this program
// and links libtorch: it becomes weft-engine (ranks as threads, or one rank of a launcher's job),
// or with --launch mpi it starts the ranks as processes and waits for them (mpi_launch.h).
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace weft {

// What weft itself takes from the arguments of `weft train`; all others are weft-engine's.
struct TrainLaunch {
  bool mpi = false;
  std::string ranks;                   // as given; empty: not given
  std::vector<std::string> arguments;  // without --launch
};
// UserError: --launch without a value or with an unknown one.
TrainLaunch parse_train_launch(const std::vector<std::string>& arguments);

void add_train_handover(CLI::App& app);

}  // namespace weft
