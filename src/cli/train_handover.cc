#include "cli/train_handover.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/stop_signals.h"
#include "cli/mpi_launch.h"
#include "cli/program.h"
#include "comm/launch_place.h"

namespace weft {
namespace {

std::filesystem::path own_file() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  WEFT_USER_CHECK(!error, "cannot find this program's own file: {}", error.message());
  return self;
}

std::filesystem::path engine_path() {
  const auto engine = own_file().parent_path() / "weft-engine";
  WEFT_USER_CHECK(
      std::filesystem::exists(engine),
      "training needs weft-engine beside weft, but '{}' does not exist; build it with ./run build "
      "(this build may have been configured with -DWEFT_DATA_PLANE=OFF)",
      engine.string());
  return engine;
}

// weft-engine takes about a second to load. A signal that arrives meanwhile waits until it has its
// handlers and unblocks these.
void hold_back_signals() {
  const sigset_t signals = stop_signals_in_use();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

[[noreturn]] void hand_over(std::string command, const std::vector<std::string>& arguments) {
  const std::string engine = engine_path().string();
  std::vector<char*> argv;
  argv.push_back(const_cast<char*>(engine.c_str()));
  argv.push_back(command.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::setenv("WEFT_BUILD_ID", build_id().c_str(), 1);
  hold_back_signals();
  ::execv(engine.c_str(), argv.data());
  throw_user_error("cannot start '{}': {}", engine, std::strerror(errno));
}

// Here rather than from the configuration file: the processes are counted before one reads it.
int num_ranks_of(const TrainLaunch& launch) {
  constexpr int kMostRanks = 1 << 20;
  int ranks = 0;
  const std::string& text = launch.ranks;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  WEFT_USER_CHECK(whole && ranks >= 1 && ranks <= kMostRanks,
                  "--launch mpi needs --ranks with a number from 1 to {}; got '{}'", kMostRanks,
                  text);
  return ranks;
}

void train(const std::vector<std::string>& arguments) {
  const TrainLaunch launch = parse_train_launch(arguments);
  if (!launch.mpi) hand_over("train", launch.arguments);
  const LaunchPlace place = find_launch_place([](const char* name) { return std::getenv(name); });
  WEFT_USER_CHECK(place.launcher == Launcher::kNone,
                  "--launch mpi would start ranks inside a rank that {} has started ({}); leave "
                  "it out there",
                  to_string(place.launcher), place.evidence);
  const int num_ranks = num_ranks_of(launch);
  static_cast<void>(engine_path());  // says what to build if it is missing, once
  std::fflush(nullptr);
  std::exit(run_mpi_job(
      {.program = own_file().string(), .arguments = launch.arguments, .num_ranks = num_ranks}));
}

}  // namespace

TrainLaunch parse_train_launch(const std::vector<std::string>& arguments) {
  TrainLaunch launch;
  const auto value_of = [&](std::size_t& i, std::string_view name) -> std::optional<std::string> {
    const std::string& word = arguments[i];
    if (word.starts_with(std::string(name) + "=")) return word.substr(name.size() + 1);
    if (word != name) return std::nullopt;
    WEFT_USER_CHECK(i + 1 < arguments.size(), "{} needs a value", name);
    return arguments[++i];
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t first = i;
    if (const auto transport = value_of(i, "--launch")) {
      WEFT_USER_CHECK(*transport == "mpi" || *transport == "threads",
                      "--launch is '{}'; expected threads or mpi", *transport);
      launch.mpi = *transport == "mpi";
      continue;
    }
    for (const char* name : {"--ranks", "--train.ranks"}) {
      if (const auto ranks = value_of(i, name)) {
        launch.ranks = *ranks;
        break;
      }
    }
    for (std::size_t k = first; k <= i; ++k) launch.arguments.push_back(arguments[k]);
  }
  return launch;
}

void add_train_handover(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "train",
      "Train a model (starts weft-engine; see weft train --help); --launch mpi: ranks as "
      "processes");
  command->prefix_command();  // everything after the name belongs to weft-engine
  command->set_help_flag();   // also --help
  command->callback([command] { train(command->remaining()); });
  CLI::App* profile = app.add_subcommand(
      "profile",
      "Measure this machine for the planner (starts weft-engine; see weft profile --help)");
  profile->prefix_command();
  profile->set_help_flag();
  profile->callback([profile] { hand_over("profile", profile->remaining()); });
}

}  // namespace weft
