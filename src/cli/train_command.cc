#include "cli/train_command.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "cli/link_options.h"
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
  LinkArguments link;
  std::vector<std::string> allow;
};

// Stopped on request before its last step; started again, it goes on. EX_TEMPFAIL of sysexits.h.
constexpr int kExitStopped = 75;

std::optional<VirtualLink> virtual_link(const TrainArguments& arguments) {
  WEFT_USER_CHECK(arguments.virtual_ranks > 0 || !arguments.link.given(),
                  "--link-bandwidth and --link-latency describe the links of virtual ranks; give "
                  "--virtual-ranks N as well");
  if (arguments.virtual_ranks == 0) return std::nullopt;
  WEFT_USER_CHECK(arguments.ranks == 0 || arguments.ranks == arguments.virtual_ranks,
                  "--ranks {} and --virtual-ranks {} differ; give one of them", arguments.ranks,
                  arguments.virtual_ranks);
  return parse_link(arguments.link);
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
  add_link_options(*command, arguments->link, "Of virtual ranks");
  command->add_option("--allow", arguments->allow,
                      "Continue although it changes what the run does; data-order: which sequences "
                      "the next steps hold");
  command->allow_extras();
  command->footer("Every key of the configuration is also an option, --section.key VALUE:\n\n" +
                  train_config_help());
  command->callback([command, arguments] { run_train(*arguments, command->remaining()); });
}

}  // namespace weft
