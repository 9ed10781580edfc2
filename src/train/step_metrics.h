// StepMetrics: what one step did, as one line for people and one JSON line for machines
// (docs/metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/checksum.h"
#include "base/units.h"
#include "plan/step_plan.h"
#include "train/phase_clock.h"

namespace weft {

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;       // NaN: the step had no target (null in JSON)
  double grad_norm = 0;  // before clipping
  double lr = 0;
  Tokens tokens;  // real tokens of the step, each once whatever the group size
  std::int64_t target_tokens = 0;
  Tokens padded_tokens;        // always 0: Weft pads nothing
  double tokens_per_s = 0;     // tokens / step_s
  double mfu = 0;              // useful FLOPs / (step_s * peak)
  StepTimes times;             // mean over ranks; phases add up to step_s; allocations of all ranks
  double imbalance = 1;        // max / mean of busy time over ranks
  Rank slowest_rank;           // the one with the largest busy time
  double gap = 0;              // (predicted makespan - lower bound) / lower bound
  double predicted_s = 0;      // predicted makespan
  Bytes exchange_bytes;        // sent on rings in this step, all ranks
  Bytes reduce_bytes;          // sent to sum gradients in this step, all ranks
  Bytes offload_bytes;         // written to the tier in this step, all ranks
  Bytes peak_bytes;            // largest over ranks, counted by the tensor allocator
  Bytes predicted_peak_bytes;  // the same, predicted from the plan before the step
  Bytes resident_bytes;  // that a process holds beyond what it held before the model, largest over
                         // processes
  std::int64_t sharded_sequences = 0;
  std::int32_t max_degree = 1;
  bool skipped = false;                // this step updated nothing
  std::int64_t skipped_steps = 0;      // so far
  std::int64_t dropped_sequences = 0;  // so far, by data.tail = "drop"
  Hash128 plan_hash;
  std::optional<std::int64_t> resumed_at;  // the step at which this process took the run up again
};

// What each rank contributes; gathered on every rank.
struct RankMeasures {
  StepTimes times;
  Bytes exchange_bytes;
  Bytes reduce_bytes;
  Bytes offload_bytes;
  Bytes peak_bytes;
  Bytes resident_bytes;
};

// Fills times, imbalance, slowest_rank and bytes from all ranks' measures (size >= 1).
void merge_rank_measures(std::span<const RankMeasures> measures, StepMetrics& metrics);
// Fills tokens, targets, sharded_sequences, max_degree, gap, predicted_s from the plan.
void describe_plan(const StepPlan& plan, StepMetrics& metrics);

std::string to_json_line(const StepMetrics& metrics);                         // no newline
std::string to_log_line(const StepMetrics& metrics, std::int64_t num_steps);  // for people

}  // namespace weft
