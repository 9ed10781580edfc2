// Forward and backward of made-up micro-batches, timed: the part of a profile that runs the model.
//
// Whole sequences run on the calling thread. Micro-batches of a ring run on as many virtual ranks
// (comm/virtual/virtual_world.h) as share the sequence, with links that cost nothing: each rank's
// own CPU time, one at a time. A member's wait for others is not its work: the mean over members
// counts, and how members differ is spread. All of them read the same parameters and add to the
// same gradients, which are never used.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention/attention_kernel.h"
#include "cost/cost_fit.h"
#include "memory/recompute.h"
#include "model/decoder.h"
#include "model/model_config.h"
#include "model/parameters.h"

namespace weft {

struct TimedModelOptions {
  ModelConfig model;
  at::ScalarType dtype = at::kFloat;
  std::string attention = "blocked";
  Recompute recompute = Recompute::kNone;
  std::int32_t threads = 1;
};

struct PassTimes {
  double forward_s = 0;
  double backward_s = 0;
};

// `num_sequences` whole sequences of `tokens_each`, or one sequence of which each of `degree` ranks
// holds `tokens_each`.
struct ProfiledBatch {
  std::int64_t num_sequences = 1;
  Tokens tokens_each{};
  std::int32_t degree = 1;
  std::vector<PassTimes> runs = {};      // warm-up left out; means over the ranks
  std::vector<double> rank_runs_s = {};  // [runs * degree]: both passes of each rank
  MicroBatchSample median = {};          // of the runs
};

class TimedModel {
 public:
  explicit TimedModel(const TimedModelOptions& options);

  // Runs the micro-batches in turns for about `limit_s`, each once to warm up, at least once more
  // and at most nine times; whoever had least time so far is next. So a slow minute of the machine
  // falls on all of them, and memory is used as by a step, whose micro-batches differ in size. Sets
  // runs and medians. REQUIRES: degree 1, or one thread.
  void time(std::span<ProfiledBatch> batches, double limit_s);
  // Median seconds of what follows the gradients of a step: norm and update, and the next step's
  // zeroes. Each time after a run of `before`, as in a step: parameters and moments have left the
  // caches.
  double time_optimizer(const ProfiledBatch& before);

 private:
  // Of each rank.
  std::vector<PassTimes> run(const ProfiledBatch& batch);
  PassTimes run_whole(const ProfiledBatch& batch);
  std::vector<PassTimes> run_ring(const ProfiledBatch& batch);
  double now() const;

  TimedModelOptions options_;
  ParameterSet parameters_;
  std::unique_ptr<AttentionKernel> kernel_;
  Decoder decoder_;
};

double median(std::vector<double> values);

}  // namespace weft
