#include "cli/train_command.h"

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "train/config.h"
#include "train/trainer.h"

namespace weft {
namespace {

struct TrainArguments {
  std::string config;
  std::int64_t ranks = 0;  // 0: not given
  std::string replay;
  bool save_plans = false;
  std::int64_t trace_step = -1;
  std::int64_t virtual_ranks = 0;  // 0: not given
  std::string link_bandwidth;
  std::string link_latency;
  std::vector<std::string> allow;
};

// Stopped on request before its last step; started again, it goes on. EX_TEMPFAIL of sysexits.h.
constexpr int kExitStopped = 75;

// "10G", "2.5e9": bytes per second.
double parse_bandwidth(const std::string& text) {
  if (text.empty()) return VirtualLink{}.bytes_per_second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double factor = unit.empty()  ? 1
                        : unit == "K" ? 1e3
                        : unit == "M" ? 1e6
                        : unit == "G" ? 1e9
                                      : 0;
  WEFT_USER_CHECK(
      error == std::errc() && factor > 0 && value > 0,
      "--link-bandwidth is '{}'; expected bytes per second above 0, such as 1.25e9, 500M "
      "or 10G (decimal)",
      text);
  return value * factor;
}

// "20us", "1.5ms", "300ns", "0".
std::chrono::nanoseconds parse_latency(const std::string& text) {
  if (text.empty()) return VirtualLink{}.latency;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double ns = unit == "ns"   ? 1
                    : unit == "us" ? 1e3
                    : unit == "ms" ? 1e6
                    : unit == "s"  ? 1e9
                                   : 0;
  constexpr double kMost = 3600e9;
  WEFT_USER_CHECK(
      error == std::errc() && value >= 0 && value * ns <= kMost &&
          (ns > 0 || (value == 0 && unit.empty())),
      "--link-latency is '{}'; expected a time of at most an hour with its unit, such as "
      "20us, 1.5ms or 300ns",
      text);
  return std::chrono::nanoseconds(std::llround(value * ns));
}

std::optional<VirtualLink> virtual_link(const TrainArguments& arguments) {
  const bool has_link = !arguments.link_bandwidth.empty() || !arguments.link_latency.empty();
  WEFT_USER_CHECK(arguments.virtual_ranks > 0 || !has_link,
                  "--link-bandwidth and --link-latency describe the links of virtual ranks; give "
                  "--virtual-ranks N as well");
  if (arguments.virtual_ranks == 0) return std::nullopt;
  WEFT_USER_CHECK(arguments.ranks == 0 || arguments.ranks == arguments.virtual_ranks,
                  "--ranks {} and --virtual-ranks {} differ; give one of them", arguments.ranks,
                  arguments.virtual_ranks);
  return VirtualLink{.bytes_per_second = parse_bandwidth(arguments.link_bandwidth),
                     .latency = parse_latency(arguments.link_latency)};
}

TrainingJob make_job(const TrainArguments& arguments, const std::vector<std::string>& rest) {
  std::vector<Override> overrides = parse_overrides(rest);
  const std::int64_t ranks = std::max(arguments.ranks, arguments.virtual_ranks);
  if (ranks > 0) overrides.push_back({"train.ranks", std::to_string(ranks)});
  return {.config = load_train_config(arguments.config, overrides),
          .replay = arguments.replay,
          .save_plans = arguments.save_plans,
          .trace_step = arguments.trace_step,
          .allowances = parse_allowances(arguments.allow),
          .virtual_link = virtual_link(arguments)};
}

// The launcher has decided how many ranks there are; --ranks may only agree.
TrainingJob make_process_job(const TrainArguments& arguments, const std::vector<std::string>& rest,
                             const LaunchPlace& place) {
  WEFT_USER_CHECK(arguments.ranks == 0 || arguments.ranks == place.size,
                  "--ranks {}, but {} started {} processes, each of which is one rank; leave "
                  "--ranks out, or start {} processes",
                  arguments.ranks, to_string(place.launcher), place.size, arguments.ranks);
  TrainingJob job = make_job(arguments, rest);
  WEFT_USER_CHECK(!job.virtual_link,
                  "--virtual-ranks are threads of one process, but {} started {} processes; start "
                  "one process without a launcher",
                  to_string(place.launcher), place.size);
  const std::int64_t configured = job.config.train.ranks;
  if (place.rank == 0 && configured != 1 && configured != place.size) {
    log_warn("train.ranks is {}, but {} started {} processes: there are {} ranks", configured,
             to_string(place.launcher), place.size, place.size);
  }
  return job;
}

// Joining is done with the limits of the configuration, if it can be read; what is wrong with it is
// said once, by make_job inside the job.
ProcessTraining process_training(const TrainArguments& arguments,
                                 const std::vector<std::string>& rest, const LaunchPlace& place) {
  ProcessTraining process{.place = place};
  try {
    const CommConfig comm = make_job(arguments, rest).config.comm;
    process.wait_limit = wait_limit(comm);
    process.check_messages = comm.check_messages;
  } catch (const UserError&) {
  }
  return process;
}

LoopEnd train(const TrainArguments& arguments, const std::vector<std::string>& rest) {
  const LaunchPlace place = find_launch_place([](const char* name) { return std::getenv(name); });
  if (place.launcher == Launcher::kNone) return run_training(make_job(arguments, rest));
  WEFT_USER_CHECK(place.launcher != Launcher::kTorchrun,
                  "started by torchrun ({}), which cannot join processes into one MPI job; use "
                  "mpirun, srun --mpi=pmix, or weft train --launch mpi --ranks {}",
                  place.evidence, place.size);
  return run_training_process(process_training(arguments, rest, place),
                              [&] { return make_process_job(arguments, rest, place); });
}

void run_train(const TrainArguments& arguments, const std::vector<std::string>& rest) {
  if (train(arguments, rest) == LoopEnd::kStopped) throw CLI::RuntimeError(kExitStopped);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model on a corpus");
  command->add_option("--config", arguments->config, "Configuration file (TOML)")->required();
  command
      ->add_option("--ranks", arguments->ranks,
                   "Number of ranks; same as --train.ranks. Threads of this process, unless a "
                   "launcher (mpirun, srun) started one process for each")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option(
      "--plan", arguments->replay,
      "Replay a saved plan: one plan file, or a folder of them, one per step, instead of planning");
  command->add_flag("--save-plans", arguments->save_plans,
                    "Write every step's plan to OUT/plans/step-NNNNNN.plan");
  command
      ->add_option("--trace", arguments->trace_step,
                   "Record every operation of this step (from 0, as in metrics.jsonl), on all "
                   "ranks, and print where its time "
                   "went; OUT/trace/step-NNNNNN.json is a Chrome trace")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "--virtual-ranks", arguments->virtual_ranks,
          "Ranks that compute one at a time, each with a clock that runs as if it had a core "
          "and a link of its own: what this run would take on N ranks")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 12));
  command->add_option("--link-bandwidth", arguments->link_bandwidth,
                      "Of virtual ranks: bytes per second, such as 1.25e9 or 10G (default)");
  command->add_option("--link-latency", arguments->link_latency,
                      "Of virtual ranks: such as 20us; default 10us");
  command->add_option("--allow", arguments->allow,
                      "Continue although it changes what the run does; data-order: which sequences "
                      "the next steps hold");
  command->allow_extras();
  command->footer("Every key of the configuration is also an option, --section.key VALUE:\n\n" +
                  train_config_help());
  command->callback([command, arguments] { run_train(*arguments, command->remaining()); });
}

}  // namespace weft
