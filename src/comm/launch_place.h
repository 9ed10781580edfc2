// Where this process stands among the processes that a launcher started (mpirun, srun, torchrun),
// read from the environment variables that launchers set; nothing is contacted.
//
// The first launcher with a complete set of variables wins: Open MPI's, then torchrun's (RANK,
// WORLD_SIZE), then MPICH's (PMI_*), then Slurm's step. Inside a batch script Slurm's variables
// describe the script itself, and mpirun's children inherit them: hence the order. Contradictory or
// incomplete sets are refused with their names and values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

enum class Launcher : std::uint8_t { kNone, kOpenMpi, kTorchrun, kMpich, kSlurm };
std::string_view to_string(Launcher launcher);  // "none", "mpirun", "torchrun", "mpich", "srun"

struct LaunchPlace {
  Launcher launcher = Launcher::kNone;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t local_rank = 0;  // among the processes of this host
  std::int32_t local_size = 1;
  // The variables that said so, for the first log line: "OMPI_COMM_WORLD_RANK=1, ..._SIZE=4".
  std::string evidence;
};

// Returns nullptr for a variable that is not set, like std::getenv.
using Environment = std::function<const char*(const char* name)>;
// UserError: a set is incomplete, not a number, out of range, or contradicts itself.
LaunchPlace find_launch_place(const Environment& environment);

// Where a rank is among those of its host.
struct LocalPlace {
  std::int32_t rank = 0;
  std::int32_t size = 1;
};

// Of all ranks in turn: how many follow each other on every host, the last of which may have fewer;
// 1 when they lie in another order, so that neighbours count as being on two hosts.
std::int32_t ranks_per_node(std::span<const LocalPlace> places);

}  // namespace weft
