// Profile: what a micro-batch, a ring hop and the end of a step cost on this machine, measured with
// the trainer's own code and fitted to the cost model that plans are made by (cost/cost_fit.h).
//
// Rank 0 runs forward and backward of micro-batches of whole random sequences, long ones and packs,
// up to `capacity` tokens, and of parts of sequences that a ring shares (train/timed_model.h), then
// the optimizer; then ranks 0 and 1 exchange K and V of several sizes, both ways at once as in a
// ring, alone and beside compute (train/timed_hops.h), and sum gradients. One compute thread is
// timed by its CPU time, so a shared machine falsifies little; several by wall time, and then
// without rings.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "cost/cost_fit.h"
#include "train/timed_model.h"

namespace weft {

struct ProfileOptions {
  TimedModelOptions model;
  Tokens capacity = Tokens(4096);
  Bytes bucket_bytes{};  // of a gradient reduction, as train.bucket_bytes
  double seconds = 60;   // about, for the micro-batches, their warm-up left out
};

struct Profile {
  CostModel cost;
  std::vector<ProfiledBatch> batches;
  FitQuality compute_fit;
  std::vector<HopSample> hops;  // means
  FitQuality hop_fit;
  std::vector<ReductionSample> reductions;  // medians
  FitQuality reduction_fit;
};

// Shapes of the micro-batches that are run for a capacity, the largest first, rings last.
std::vector<ProfiledBatch> profile_shapes(Tokens capacity, bool with_rings);

// Collective over at least two ranks; the result is rank 0's, empty elsewhere.
Profile profile_machine(const ProfileOptions& options, Communicator& comm);

}  // namespace weft
