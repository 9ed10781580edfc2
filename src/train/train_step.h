// One optimizer update on one rank: the sentence of the paper, on one screen.
#pragma once

#include <cstdint>

#include "model/decoder.h"
#include "optim/adamw.h"
#include "optim/lr_schedule.h"
#include "train/phase_clock.h"

namespace weft {

struct TrainStepOptions {
  double clip_grad = 1.0;      // largest global gradient norm; 0 = off
  Bytes bucket_bytes = 4_MiB;  // of the gradient reduction
};

// What one rank keeps between steps. Every rank holds the same parameters and moments, bit for bit.
struct RankState {
  Communicator& comm;
  const SequenceSource& source;
  ParameterSet& parameters;
  Decoder& decoder;
  AdamW& optimizer;
  LearningRateSchedule schedule;
  TrainStepOptions options;
  OperationTrace* trace = nullptr;      // may be null
  OffloadTier* offload_tier = nullptr;  // null: no plan offloads
  OffloadMeasures offloaded = {};       // grows with every step
  std::int64_t skipped_steps = 0;       // steps without a target or with a non-finite gradient
};

struct StepOutcome {
  double loss = 0;       // of the whole step: sum(w * loss) / W; NaN when the step has no target
  double grad_norm = 0;  // global, before clipping; NaN when the step has no target
  double lr = 0;  // used by this update, or that the next one will use when this step was skipped
  bool skipped = false;
  StepTimes times;
};

// Runs this rank's micro-batches, sums gradients over all ranks, updates. Every rank takes part in
// every reduction, also with nothing to run. `clock` has been started (phase plan).
StepOutcome train_step(RankState& rank, const PlanSlice& slice, PhaseClock& clock);

}  // namespace weft
