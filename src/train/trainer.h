// The trainer: from a configuration to trained weights. The only place that knows every other
// module.
//
// OUT/ holds: config.toml (the effective configuration), metrics.jsonl (one line per step),
// plans/step-NNNNNN.plan when asked for, and at the end model.safetensors and config.json in
// Hugging Face form.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/config.h"
#include "train/plan_feed.h"
#include "train/step_metrics.h"
#include "train/train_step.h"

namespace weft {

struct TrainingJob {
  TrainConfig config;
  std::string replay;       // plan file or folder of plans; empty: plan
  bool save_plans = false;  // write every step's plan to OUT/plans
};

// Opens the corpus, checks everything that can be checked before the first step, trains on
// config.train.ranks thread ranks, writes OUT. Throws UserError, CommError or InternalError; OUT
// keeps what was written.
void run_training(const TrainingJob& job);

// The part that tests drive directly: every rank's loop over steps, without files.
struct StepLoop {
  ModelConfig model;
  at::ScalarType dtype = at::kFloat;
  std::string attention = "blocked";
  std::int32_t num_ranks = 1;
  std::int32_t threads_per_rank = 1;
  std::int64_t num_steps = 1;
  std::uint64_t seed = 0;  // initial weights
  AdamWOptions optimizer;
  LearningRateSchedule schedule;
  TrainStepOptions step_options;
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);
  double peak_flops_per_s = 1;  // of all ranks together, for MFU
  // Called on rank 0's thread. Either may be empty.
  std::function<void(const StepPlan&)> on_plan;
  std::function<void(const StepMetrics&)> on_step;
  std::function<void(const ParameterSet&)> on_end;
};

void run_step_loop(const StepLoop& loop, const SequenceSource& source, PlanFeed& feed);

}  // namespace weft
