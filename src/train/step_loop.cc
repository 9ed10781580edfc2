// Every rank's loop over steps: rank 0 plans and sends slices, all train, rank 0 reports.
#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/thread/thread_world.h"
#include "memory/counting_allocator.h"
#include "plan/plan_slice.h"
#include "train/trainer.h"

namespace weft {
namespace {

constexpr Rank kPlanner{0};

struct PlannedStep {
  StepMetrics metrics;  // what the plan says; rank 0 only
  PlanSlice slice;
  std::int64_t causal_pairs = 0;  // rank 0 only
};

std::int64_t count_causal_pairs(const StepPlan& plan) {
  std::int64_t pairs = 0;
  for (const SequenceSpec& sequence : plan.sequences)
    pairs += causal_work({0, sequence.tokens.value()});
  return pairs;
}

// Rank 0 takes the next prepared step and sends every rank its slice.
PlannedStep plan_step(Communicator& comm, PlanAhead* plans, const StepLoop& loop,
                      std::int64_t step) {
  PlannedStep planned;
  PreparedStep prepared;
  if (plans != nullptr) {
    prepared = plans->take();
    const StepPlan& plan = prepared.fed.plan;
    describe_plan(plan, planned.metrics);
    planned.metrics.plan_hash = prepared.hash;
    planned.metrics.dropped_sequences = prepared.fed.dropped_sequences;
    planned.causal_pairs = count_causal_pairs(plan);
    if (loop.on_plan) loop.on_plan(plan);
  }
  const auto bytes =
      scatter_messages(comm, kPlanner, prepared.slices, {.operation = "plan slices", .step = step});
  planned.slice = decode_slice(bytes, fmt::format("plan slice of step {}", step));
  return planned;
}

// All ranks must hold slices of one plan; a mismatch would show later as a hang or, worse, as a
// wrong gradient.
void check_same_plan(Communicator& comm, const PlanSlice& slice) {
  const std::array<std::int64_t, 2> mine = {static_cast<std::int64_t>(slice.plan_hash.high),
                                            static_cast<std::int64_t>(slice.plan_hash.low)};
  const auto all =
      gather_all<std::int64_t>(comm, mine, {.operation = "plan hash", .step = slice.step});
  for (std::size_t i = 0; i < all.size(); ++i) {
    WEFT_CHECK_EQ(all[i], mine[i % 2], "rank {} has another plan than rank {} at step {}", i / 2,
                  comm.rank(), slice.step);
  }
}

std::vector<RankMeasures> gather_measures(Communicator& comm, const RankMeasures& mine,
                                          std::int64_t step) {
  constexpr std::size_t kFields = kNumPhases + 4;
  std::array<double, kFields> packed{};
  std::copy(mine.times.seconds.begin(), mine.times.seconds.end(), packed.begin());
  packed[kNumPhases] = mine.times.step_s;
  packed[kNumPhases + 1] = mine.times.busy_s;
  packed[kNumPhases + 2] = static_cast<double>(mine.exchange_bytes.value());  // exact below 2^53
  packed[kNumPhases + 3] = static_cast<double>(mine.peak_bytes.value());
  const auto all = gather_all<double>(comm, packed, {.operation = "step measures", .step = step});
  std::vector<RankMeasures> measures(static_cast<std::size_t>(comm.size()));
  for (std::size_t r = 0; r < measures.size(); ++r) {
    const double* values = all.data() + r * kFields;
    std::copy(values, values + kNumPhases, measures[r].times.seconds.begin());
    measures[r].times.step_s = values[kNumPhases];
    measures[r].times.busy_s = values[kNumPhases + 1];
    measures[r].exchange_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 2]));
    measures[r].peak_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 3]));
  }
  return measures;
}

void finish_metrics(const StepLoop& loop, const PlannedStep& planned, const StepOutcome& outcome,
                    std::span<const RankMeasures> measures, StepMetrics& metrics) {
  merge_rank_measures(measures, metrics);
  metrics.loss = outcome.loss;
  metrics.grad_norm = outcome.grad_norm;
  metrics.lr = outcome.lr;
  metrics.skipped = outcome.skipped;
  metrics.tokens_per_s = static_cast<double>(metrics.tokens.value()) / metrics.times.step_s;
  const Flops flops = training_flops(loop.model, metrics.tokens, planned.causal_pairs);
  metrics.mfu = static_cast<double>(flops.value()) / (metrics.times.step_s * loop.peak_flops_per_s);
}

void run_rank(const StepLoop& loop, const SequenceSource& source, PlanFeed& feed,
              Communicator& comm) {
  set_compute_threads(loop.threads_per_rank);
  AllocationCounter memory;
  const AllocationScope counting(memory);
  ParameterSet parameters(loop.model, loop.dtype);
  parameters.initialize(loop.seed);
  const auto kernel = make_attention_kernel(loop.attention);
  Decoder decoder(loop.model, parameters, *kernel);
  AdamW optimizer(parameters, loop.optimizer);
  RankState state{.comm = comm,
                  .source = source,
                  .parameters = parameters,
                  .decoder = decoder,
                  .optimizer = optimizer,
                  .schedule = loop.schedule,
                  .options = loop.step_options};
  const bool reports = comm.rank() == kPlanner;
  std::unique_ptr<PlanAhead> plans;
  if (reports) plans = std::make_unique<PlanAhead>(feed, loop.num_ranks, loop.num_steps);
  PhaseClock clock(comm);
  for (std::int64_t step = 0; step < loop.num_steps; ++step) {
    clock.start(Phase::kPlan);
    memory.reset_peak();
    const Bytes ring_bytes_before = comm.stats(Channel::kRing).bytes_sent;
    PlannedStep planned = plan_step(comm, plans.get(), loop, step);
    check_same_plan(comm, planned.slice);
    const StepOutcome outcome = train_step(state, planned.slice, clock);
    const RankMeasures mine{
        .times = outcome.times,
        .exchange_bytes = comm.stats(Channel::kRing).bytes_sent - ring_bytes_before,
        .peak_bytes = memory.peak()};
    const auto measures = gather_measures(comm, mine, step);
    if (!reports) continue;
    planned.metrics.skipped_steps = state.skipped_steps;
    finish_metrics(loop, planned, outcome, measures, planned.metrics);
    if (loop.on_step) loop.on_step(planned.metrics);
  }
  if (reports && loop.on_end) loop.on_end(parameters);
}

}  // namespace

void run_step_loop(const StepLoop& loop, const SequenceSource& source, PlanFeed& feed) {
  install_counting_allocator();
  if (!set_blas_threads(loop.threads_per_rank)) {
    log_warn(
        "the BLAS in use ({}) does not let its threads be set: {} ranks may share cores badly; "
        "install OpenBLAS",
        blas_description(), loop.num_ranks);
  }
  run_thread_ranks({.num_ranks = loop.num_ranks, .wait_limit = loop.wait_limit},
                   [&](Communicator& comm) { run_rank(loop, source, feed, comm); });
}

}  // namespace weft
