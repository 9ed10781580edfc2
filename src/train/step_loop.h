// Every rank's loop over the steps of a run: take the plan's slice, train, measure, save, stop.
// No configuration and no output folder are known here; tests drive it directly.
//
// All ranks leave the loop at the same step: whether to stop is agreed with the plan of each step,
// so a request that reaches only some ranks, or in the middle of a step, lets every rank finish the
// step it is in.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_io.h"
#include "checkpoint/run_position.h"
#include "train/plan_ahead.h"
#include "train/step_metrics.h"
#include "train/step_trace.h"
#include "train/train_step.h"

namespace weft {

struct StepLoop {
  ModelConfig model;
  at::ScalarType dtype = at::kFloat;
  std::string attention = "blocked";
  Recompute recompute = Recompute::kNone;
  std::int32_t num_ranks = 1;
  std::int32_t threads_per_rank = 1;
  std::int32_t ranks_here = 1;  // of them in this process
  std::int64_t num_steps = 1;   // of the run, those before `start` included
  std::uint64_t seed = 0;       // initial weights
  AdamWOptions optimizer;
  LearningRateSchedule schedule;
  TrainStepOptions step_options;
  std::chrono::nanoseconds wait_limit = std::chrono::seconds(60);
  std::int64_t plans_ahead = 1;
  double peak_flops_per_s = 1;   // of all ranks together, for MFU
  std::int64_t trace_step = -1;  // record every operation of this step; -1: of none
  MemoryBudget memory;           // of one rank
  Bytes resident_before;         // what the process held before its first rank

  RunPosition start;                // where the feed stands too
  std::filesystem::path load_from;  // checkpoint of `start`; empty: a new run
  CheckpointTarget checkpoints;     // folder empty: never save
  std::int64_t save_interval = 0;   // 0: only when the loop ends
  Hash128 corpus_hash;              // kept in checkpoints, as is `config`
  std::string config;

  // Called once on every rank; empty: plans that offload are refused.
  std::function<std::unique_ptr<OffloadTier>()> make_offload_tier;

  // Asked on every rank once a step. May be empty.
  std::function<bool()> stop_requested;
  // Called on rank 0's thread. May be empty.
  std::function<void(const StepPlan&)> on_plan;
  std::function<void(const StepMetrics&)> on_step;
  std::function<void(std::int64_t step, std::span<const RankTrace>)> on_trace;
  std::function<void(const RunPosition&, double seconds)> on_saved;
  std::function<void(const ParameterSet&)> on_finished;  // not after a stop
};

enum class LoopEnd { kFinished, kStopped };

// One rank's part, on its own thread or process. `feed` is used on rank 0 only. A save that fails
// during the run is a warning and tried again at the next interval; one that fails at its end is an
// IoError.
LoopEnd run_steps(const StepLoop& loop, const SequenceSource& source, PlanFeed* feed,
                  Communicator& comm);

// Before the first rank starts: what all ranks of this process share.
// Returns the memory that the process holds then.
Bytes prepare_process(std::int32_t threads_per_rank);

// All ranks as threads of this process.
LoopEnd run_step_loop(const StepLoop& loop, const SequenceSource& source, PlanFeed& feed);

}  // namespace weft
