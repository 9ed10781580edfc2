// OUT, the folder of a run, as its one writer sees it (rank 0; checkpoints are written by all
// ranks, checkpoint/checkpoint_io.h):
//
//   config.toml, config.json       the effective configuration; the model's, in Hugging Face form
//   cost.json                      the cost model that the plans are made by
//   metrics.jsonl                  a line per step
//   plans/step-NNNNNN.plan         when asked for
//   trace/step-NNNNNN.json         when asked for: every operation of one step
//   checkpoints/                   what the run continues from
//   model.safetensors              the weights at the end
//   .lock                          held while a run writes here; a lock of the system, so that it
//                                  falls when the process ends, however it ends
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "model/parameters.h"
#include "train/metrics_log.h"
#include "train/run_setup.h"

namespace weft {

// Holds OUT for this process. UserError when another process holds it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& out);  // makes OUT when it does not exist
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

class RunFolder {
 public:
  // REQUIRES: the lock is held.
  RunFolder(const RunSetup& setup, std::int64_t first_step, bool saves_plans);

  void on_plan(const StepPlan& plan);
  void on_step(const StepMetrics& metrics);
  // Writes the trace; returns its path.
  std::filesystem::path on_trace(std::int64_t step, std::span<const RankTrace> ranks);
  void on_finished(const ParameterSet& parameters);
  void close();  // IoError when metrics could not be written

 private:
  const RunSetup& setup_;
  std::filesystem::path out_;
  bool saves_plans_;
  MetricsLog metrics_;
};

}  // namespace weft
