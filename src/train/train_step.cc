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

}  // namespace

StepOutcome train_step(RankState& rank, const PlanSlice& slice, PhaseClock& clock) {
  StepOutcome outcome;
  clock.enter(Phase::kOptimizer);
  rank.parameters.zero_gradients();
  double loss_share = 0;
  for (const MicroBatch& micro_batch : slice.micro_batches) {
    clock.enter(Phase::kData);
    const PackedMicroBatch batch = pack_micro_batch(slice, micro_batch, rank.source);
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
  const at::Tensor& gradients = rank.parameters.flat_gradients();
  all_reduce_gradients(rank.comm, gradients, rank.options.bucket_bytes, slice.step);
  outcome.loss = sum_over_ranks(rank.comm, loss_share, slice.step);

  clock.enter(Phase::kOptimizer);
  outcome.grad_norm = global_norm(gradients);
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
    rank.optimizer.update(rank.parameters, outcome.lr, scale);
  }
  if (slice.total_weight == 0) {
    outcome.loss = outcome.grad_norm = std::numeric_limits<double>::quiet_NaN();
  }
  outcome.times = clock.stop();
  return outcome;
}

}  // namespace weft
