#include "train/train_step.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "attention/attention_layout.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "loader/packed_micro_batch.h"
#include "optim/gradient_reduction.h"

namespace weft {
namespace {

// In rank order and in double, so that every rank and every transport gets the same bits.
double sum_over_ranks(Communicator& comm, double share, std::int64_t step) {
  const auto shares =
      gather_all<double>(comm, std::span(&share, 1), {.operation = "loss gather", .step = step});
  return std::accumulate(shares.begin(), shares.end(), 0.0);
}

void zero_gradients(RankState& rank) {
  const OperationScope scope({rank.trace, "zero gradients"}, OperationKind::kOptimizer);
  rank.parameters.zero_gradients();
}

PackedMicroBatch pack(const RankState& rank, const PlanSlice& slice,
                      const MicroBatch& micro_batch) {
  const OperationScope scope({rank.trace, "pack micro-batch"}, OperationKind::kData);
  return pack_micro_batch(slice, micro_batch, rank.source);
}

// The step's loss.
double reduce(RankState& rank, double loss_share, std::int64_t step) {
  const OperationScope scope({rank.trace, "sum gradients"}, OperationKind::kReduction);
  all_reduce_gradients(rank.comm, rank.parameters.flat_gradients(), rank.options.bucket_bytes,
                       step);
  return sum_over_ranks(rank.comm, loss_share, step);
}

double norm_of_gradients(const RankState& rank) {
  const OperationScope scope({rank.trace, "gradient norm"}, OperationKind::kOptimizer);
  return global_norm(rank.parameters.flat_gradients());
}

}  // namespace

StepOutcome train_step(RankState& rank, const PlanSlice& slice, PhaseClock& clock) {
  StepOutcome outcome;
  clock.enter(Phase::kOptimizer);
  zero_gradients(rank);
  double loss_share = 0;
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    clock.enter(Phase::kData);
    const PackedMicroBatch batch = pack(rank, slice, micro_batch);
    const AttentionLayout layout = make_attention_layout(slice, micro_batch);
    const RingContext ring{.comm = &rank.comm, .step = slice.step};
    clock.enter(Phase::kForward);
    ForwardResult forward = rank.decoder.forward(batch, layout, ring,
                                                 {.tier = rank.offload_tier,
                                                  .ratio = micro_batch.offload_ratio,
                                                  .measures = &rank.offloaded});
    loss_share += forward.loss;
    clock.enter(Phase::kBackward);
    rank.decoder.backward(std::move(forward), batch, layout, ring);
  }

  clock.enter(Phase::kReduce);
  outcome.loss = reduce(rank, loss_share, slice.step);

  clock.enter(Phase::kOptimizer);
  outcome.grad_norm = norm_of_gradients(rank);
  outcome.lr = rank.schedule.at(rank.optimizer.num_updates());
  outcome.skipped =
      slice.total_weight == 0 || !std::isfinite(outcome.grad_norm) || !std::isfinite(outcome.loss);
  if (outcome.skipped) {
    ++rank.skipped_steps;
    if (slice.total_weight != 0 && rank.comm.rank() == Rank(0)) {
      log_warn(
          "step {} is skipped on all ranks: its loss is {} and its gradient norm {}; parameters, "
          "moments and learning rate stay as they were",
          slice.step, outcome.loss, outcome.grad_norm);
    }
  } else {
    const double scale = clip_scale(outcome.grad_norm, rank.options.clip_grad);
    const OperationScope scope({rank.trace, "adamw"}, OperationKind::kOptimizer);
    rank.optimizer.update(rank.parameters, outcome.lr, scale);
  }
  if (slice.total_weight == 0) {
    outcome.loss = outcome.grad_norm = std::numeric_limits<double>::quiet_NaN();
  }
  outcome.times = clock.stop();
  return outcome;
}

}  // namespace weft
