#include "comm/launch_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

// The variables of one launcher. The local ones may be missing where there is one process.
struct VariableSet {
  Launcher launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr std::array kFlatSets{
    VariableSet{Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    VariableSet{Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    VariableSet{Launcher::kMpich, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

std::optional<std::string> value_of(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string show(const char* name, const std::optional<std::string>& value) {
  return value ? fmt::format("{}={}", name, *value) : fmt::format("{} is not set", name);
}

std::int32_t parse_count(Launcher launcher, const char* name, const std::string& text) {
  std::int32_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_USER_CHECK(error == std::errc() && end == text.data() + text.size() && value >= 0,
                  "{} sets {}='{}', which is not a number from 0 to {}; start the run again from "
                  "a clean environment, or unset it",
                  to_string(launcher), name, text, std::numeric_limits<std::int32_t>::max());
  return value;
}

void check_place(const LaunchPlace& place) {
  const auto refuse = [&](std::string_view why) {
    throw_user_error("the environment variables of {} contradict each other ({}): {}",
                     to_string(place.launcher), why, place.evidence);
  };
  if (place.size < 1) refuse("a job has at least one process");
  if (place.rank >= place.size) refuse("the rank must be less than the size");
  if (place.local_size < 1) refuse("a host has at least one process");
  if (place.local_rank >= place.local_size)
    refuse("the local rank must be less than the local size");
  if (place.local_size > place.size) refuse("a host cannot have more processes than the job");
}

// The place if all of the set is there, nothing otherwise.
std::optional<LaunchPlace> read_flat_set(const VariableSet& set, const Environment& environment) {
  const auto rank = value_of(environment, set.rank), size = value_of(environment, set.size);
  auto local_rank = value_of(environment, set.local_rank);
  auto local_size = value_of(environment, set.local_size);
  if (!rank || !size) return std::nullopt;
  LaunchPlace place;
  place.launcher = set.launcher;
  place.rank = parse_count(set.launcher, set.rank, *rank);
  place.size = parse_count(set.launcher, set.size, *size);
  const bool alone = place.size == 1;
  if (!alone && (!local_rank || !local_size)) return std::nullopt;
  if (local_rank) place.local_rank = parse_count(set.launcher, set.local_rank, *local_rank);
  if (local_size) place.local_size = parse_count(set.launcher, set.local_size, *local_size);
  place.evidence = fmt::format("{}, {}, {}, {}", show(set.rank, rank), show(set.size, size),
                               show(set.local_rank, local_rank), show(set.local_size, local_size));
  check_place(place);
  return place;
}

// Slurm's "3,1" or "4(x2),1": processes on each node, in the order of the nodes.
std::vector<std::int32_t> parse_tasks_per_node(const char* name, const std::string& text) {
  constexpr std::size_t kMaxNodes = 1 << 20;
  const auto refuse = [&] {
    throw_user_error("srun sets {}='{}'; expected a list such as 3,1 or 4(x2)", name, text);
  };
  std::vector<std::int32_t> tasks;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    std::int32_t value = -1;
    const auto result = std::from_chars(at, end, value);
    if (result.ec != std::errc() || value < 0) refuse();
    at = result.ptr;
    return value;
  };
  while (true) {
    const std::int32_t count = number();
    std::int32_t repeats = 1;
    if (end - at >= 2 && std::memcmp(at, "(x", 2) == 0) {
      at += 2;
      repeats = number();
      if (at == end || *at++ != ')') refuse();
    }
    if (tasks.size() + static_cast<std::size_t>(repeats) > kMaxNodes) refuse();
    tasks.insert(tasks.end(), static_cast<std::size_t>(repeats), count);
    if (at == end) return tasks;
    if (*at++ != ',') refuse();
  }
}

constexpr const char* kSlurmRank = "SLURM_PROCID";
constexpr const char* kSlurmSize = "SLURM_STEP_NUM_TASKS";
constexpr const char* kSlurmLocalRank = "SLURM_LOCALID";
constexpr const char* kSlurmNode = "SLURM_NODEID";

// A step's variables start with SLURM_STEP_; a batch script has the others only, and is no rank.
std::optional<LaunchPlace> read_slurm_step(const Environment& environment) {
  const auto rank = value_of(environment, kSlurmRank), size = value_of(environment, kSlurmSize);
  const auto local_rank = value_of(environment, kSlurmLocalRank);
  const auto node = value_of(environment, kSlurmNode);
  const char* tasks_name = "SLURM_STEP_TASKS_PER_NODE";
  auto tasks = value_of(environment, tasks_name);
  if (!tasks) {
    tasks_name = "SLURM_TASKS_PER_NODE";
    tasks = value_of(environment, tasks_name);
  }
  if (!rank || !size || !local_rank || !node || !tasks) return std::nullopt;
  LaunchPlace place;
  place.launcher = Launcher::kSlurm;
  place.rank = parse_count(place.launcher, kSlurmRank, *rank);
  place.size = parse_count(place.launcher, kSlurmSize, *size);
  place.local_rank = parse_count(place.launcher, kSlurmLocalRank, *local_rank);
  const std::int32_t node_idx = parse_count(place.launcher, kSlurmNode, *node);
  const auto per_node = parse_tasks_per_node(tasks_name, *tasks);
  place.evidence = fmt::format("{}, {}, {}, {}, {}", show(kSlurmRank, rank), show(kSlurmSize, size),
                               show(kSlurmLocalRank, local_rank), show(kSlurmNode, node),
                               show(tasks_name, tasks));
  std::int64_t sum = 0;
  for (const std::int32_t count : per_node) sum += count;
  WEFT_USER_CHECK(
      sum == place.size && static_cast<std::size_t>(node_idx) < per_node.size(),
      "the environment variables of srun contradict each other ({} tasks on {} nodes): {}", sum,
      per_node.size(), place.evidence);
  place.local_size = per_node[static_cast<std::size_t>(node_idx)];
  check_place(place);
  return place;
}

// Called when no set is complete. A part of one means that a launcher is there, whose other
// processes would each train a model of their own.
void refuse_partial_sets(const Environment& environment) {
  for (const VariableSet& set : kFlatSets) {
    const auto rank = value_of(environment, set.rank), size = value_of(environment, set.size);
    if (!rank && !size) continue;
    throw_user_error(
        "the environment looks like {}'s, but is incomplete: {}, {}, {}, {}; set all of them, or "
        "unset them to run without a launcher",
        to_string(set.launcher), show(set.rank, rank), show(set.size, size),
        show(set.local_rank, value_of(environment, set.local_rank)),
        show(set.local_size, value_of(environment, set.local_size)));
  }
  const auto size = value_of(environment, kSlurmSize);
  if (!size || *size == "1") return;
  throw_user_error(
      "the environment looks like srun's, but is incomplete: {}, {}, {}, {}, {}; set all of them, "
      "or unset them to run without a launcher",
      show(kSlurmSize, size), show(kSlurmRank, value_of(environment, kSlurmRank)),
      show(kSlurmLocalRank, value_of(environment, kSlurmLocalRank)),
      show(kSlurmNode, value_of(environment, kSlurmNode)),
      show("SLURM_STEP_TASKS_PER_NODE", value_of(environment, "SLURM_STEP_TASKS_PER_NODE")));
}

}  // namespace

std::string_view to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kOpenMpi:
      return "mpirun";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kMpich:
      return "mpich";
    case Launcher::kSlurm:
      return "srun";
  }
  return "unknown";
}

LaunchPlace find_launch_place(const Environment& environment) {
  for (const VariableSet& set : kFlatSets) {
    if (auto place = read_flat_set(set, environment)) return *place;
  }
  if (auto place = read_slurm_step(environment)) return *place;
  refuse_partial_sets(environment);
  return {};
}

std::int32_t ranks_per_node(std::span<const LocalPlace> places) {
  const auto num_ranks = static_cast<std::int32_t>(places.size());
  const std::int32_t most = places.empty() ? 1 : std::max(1, places.front().size);
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    const LocalPlace& place = places[static_cast<std::size_t>(rank)];
    const std::int32_t first_of_host = rank / most * most;
    if (place.rank != rank - first_of_host ||
        place.size != std::min(most, num_ranks - first_of_host))
      return 1;
  }
  return most;
}

}  // namespace weft
