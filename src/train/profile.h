// Profile: what a micro-batch and a ring hop cost on this machine, measured with the trainer's own
// code and fitted to the cost model that plans are made by (cost/cost_fit.h).
//
// Rank 0 runs forward and backward of micro-batches of whole random sequences, long ones and packs,
// up to `capacity` tokens; then ranks 0 and 1 exchange K and V of several sizes, both ways at once
// as in a ring. One compute thread is timed by its CPU time, so a shared machine falsifies little;
// several by wall time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "cost/cost_fit.h"
#include "memory/recompute.h"
#include "model/model_config.h"
#include "tensor/tensor.h"

namespace weft {

struct ProfileOptions {
  ModelConfig model;
  at::ScalarType dtype = at::kFloat;
  std::string attention = "blocked";
  Recompute recompute = Recompute::kNone;
  std::int32_t threads_per_rank = 1;
  Tokens capacity = Tokens(4096);
  double seconds = 60;  // about, for the micro-batches; each runs at least once beside its warm-up
};

struct ProfiledBatch {
  std::int64_t num_sequences = 1;
  Tokens tokens_each{};
  std::int64_t num_runs = 0;
  MicroBatchSample median = {};
};

struct Profile {
  CostModel cost;
  std::vector<ProfiledBatch> batches;
  FitQuality compute_fit;
  std::vector<HopSample> hops;  // medians
  FitQuality hop_fit;
};

// Shapes of the micro-batches that are run for a capacity, the largest first.
std::vector<ProfiledBatch> profile_shapes(Tokens capacity);

// Collective over at least two ranks; the result is rank 0's, empty elsewhere. `on_batch` may be
// empty.
Profile profile_machine(const ProfileOptions& options, Communicator& comm,
                        const std::function<void(const ProfiledBatch&)>& on_batch);

}  // namespace weft
