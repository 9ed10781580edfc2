// Forward and backward of made-up micro-batches, timed: the part of a profile that runs the model.
//
// Whole sequences run on the calling thread. Micro-batches of a ring run on as many virtual ranks
// (comm/virtual/virtual_world.h) as share the sequence, with links that cost nothing: each rank's
// own CPU time, one at a time, and the slowest member counts. All of them read the same parameters
// and add to the same gradients, which are never used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

// `num_sequences` whole sequences of `tokens_each`, or one sequence of which each of `degree` ranks
// holds `tokens_each`.
struct ProfiledBatch {
  std::int64_t num_sequences = 1;
  Tokens tokens_each{};
  std::int32_t degree = 1;
  std::int64_t num_runs = 0;
  MicroBatchSample median = {};  // of the slowest rank
};

class TimedModel {
 public:
  explicit TimedModel(const TimedModelOptions& options);

  // Runs the micro-batch for about `limit_s`, but at least once beside a warm-up, and sets its
  // times. REQUIRES: degree 1, or one thread.
  void time(ProfiledBatch& batch, double limit_s);
  // Median seconds of what follows the gradients of a step: norm and update, and the next step's
  // zeroes.
  double time_optimizer();

 private:
  struct Times {
    double forward_s = 0;
    double backward_s = 0;
  };
  void time_whole(ProfiledBatch& batch, double limit_s);
  void time_ring(ProfiledBatch& batch, double limit_s);
  double now() const;

  TimedModelOptions options_;
  ParameterSet parameters_;
  std::unique_ptr<AttentionKernel> kernel_;
  Decoder decoder_;
};

double median(std::vector<double> values);

}  // namespace weft
