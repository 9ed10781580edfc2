#include "cli/train_command.h"

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "train/config.h"
#include "train/trainer.h"

namespace weft {
namespace {

struct TrainArguments {
  std::string config;
  std::int64_t ranks = 0;  // 0: not given
  std::string replay;
  bool save_plans = false;
};

// Set by launchers whose transport this build does not hold. Ignoring them would train N separate
// models.
void refuse_foreign_launcher() {
  struct Launcher {
    const char* size_variable;
    const char* name;
  };
  for (const Launcher& launcher :
       {Launcher{"OMPI_COMM_WORLD_SIZE", "mpirun"}, Launcher{"PMI_SIZE", "mpirun"},
        Launcher{"SLURM_STEP_NUM_TASKS", "srun"}, Launcher{"WORLD_SIZE", "torchrun"}}) {
    const char* size = std::getenv(launcher.size_variable);
    WEFT_USER_CHECK(size == nullptr || std::string(size) == "1",
                    "started by {} with {}={}, but this build has only the thread transport, so "
                    "every process would "
                    "train a model of its own; start it once, with --ranks {}",
                    launcher.name, launcher.size_variable, size, size);
  }
}

void run_train(const TrainArguments& arguments, const std::vector<std::string>& rest) {
  refuse_foreign_launcher();
  std::vector<Override> overrides = parse_overrides(rest);
  if (arguments.ranks > 0) overrides.push_back({"train.ranks", std::to_string(arguments.ranks)});
  TrainingJob job;
  job.config = load_train_config(arguments.config, overrides);
  job.replay = arguments.replay;
  job.save_plans = arguments.save_plans;
  run_training(job);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model on a corpus");
  command->add_option("--config", arguments->config, "Configuration file (TOML)")->required();
  command
      ->add_option("--ranks", arguments->ranks,
                   "Number of ranks, as threads of this process; same as --train.ranks")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option(
      "--plan", arguments->replay,
      "Replay a saved plan: one plan file, or a folder of them, one per step, instead of planning");
  command->add_flag("--save-plans", arguments->save_plans,
                    "Write every step's plan to OUT/plans/step-NNNNNN.plan");
  command->allow_extras();
  command->footer("Every key of the configuration is also an option, --section.key VALUE:\n\n" +
                  train_config_help());
  command->callback([command, arguments] { run_train(*arguments, command->remaining()); });
}

}  // namespace weft
