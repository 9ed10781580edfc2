#include "train/step_loop.h"

#include <array>

#include "base/error.h"
#include "base/log.h"
#include "comm/collectives.h"
#include "comm/thread/thread_world.h"
#include "machine/memory_size.h"
#include "machine/resident_size.h"
#include "memory/counting_allocator.h"
#include "memory/freed_memory.h"
#include "plan/plan_slice.h"

namespace weft {
namespace {

constexpr Rank kPlanner{0};

struct PlannedStep {
  StepMetrics metrics;  // what the plan says; rank 0 only
  PlanSlice slice;
  std::int64_t causal_pairs = 0;  // rank 0 only
  DataOrderState reader;          // after this step's sequences were taken; rank 0 only
};

std::int64_t count_causal_pairs(const StepPlan& plan) {
  std::int64_t pairs = 0;
  for (const SequenceSpec& sequence : plan.sequences)
    pairs += causal_work({0, sequence.tokens.value()});
  return pairs;
}

// Of a prediction that no budget need limit: at most half of what the machine has left on top of
// what the process has.
void fetch_large_blocks(Bytes wanted, const std::function<bool()>& is_wanted) {
  const Bytes left = read_memory_size(system_text()).usable();
  reserve_large_blocks(std::min(wanted, resident_size(system_text()) + left / 2),
                       is_wanted);
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
    planned.metrics.predicted_peak_bytes = prepared.memory.tensors();
    planned.metrics.dropped_sequences =
        loop.start.dropped_sequences + prepared.fed.dropped_sequences;
    planned.causal_pairs = count_causal_pairs(plan);
    planned.reader = prepared.fed.reader;
    if (loop.on_plan) loop.on_plan(plan);
  }
  const auto bytes =
      scatter_messages(comm, kPlanner, prepared.slices, {.operation = "plan slices", .step = step});
  planned.slice = decode_slice(bytes, fmt::format("plan slice of step {}", step));
  return planned;
}

// All ranks must hold slices of one plan; a mismatch would show later as a hang or, worse, as a
// wrong gradient. Returns whether any rank was asked to stop: every rank learns it here.
bool check_same_plan(Communicator& comm, const PlanSlice& slice, bool stop_requested) {
  const std::array<std::int64_t, 3> mine = {static_cast<std::int64_t>(slice.plan_hash.high),
                                            static_cast<std::int64_t>(slice.plan_hash.low),
                                            stop_requested ? 1 : 0};
  const auto all =
      gather_all<std::int64_t>(comm, mine, {.operation = "plan hash", .step = slice.step});
  bool stop = false;
  for (std::size_t r = 0; r < all.size() / mine.size(); ++r) {
    const auto* const theirs = all.data() + r * mine.size();
    WEFT_CHECK(theirs[0] == mine[0] && theirs[1] == mine[1],
               "rank {} has another plan than rank {} at step {}", r, comm.rank(), slice.step);
    stop = stop || theirs[2] != 0;
  }
  return stop;
}

std::vector<RankMeasures> gather_measures(Communicator& comm, const RankMeasures& mine,
                                          std::int64_t step) {
  constexpr std::size_t kFields = 2 * kNumPhases + 7;
  std::array<double, kFields> packed{};
  std::copy(mine.times.seconds.begin(), mine.times.seconds.end(), packed.begin());
  packed[kNumPhases] = mine.times.step_s;
  packed[kNumPhases + 1] = mine.times.busy_s;
  packed[kNumPhases + 2] = static_cast<double>(mine.exchange_bytes.value());  // exact below 2^53
  packed[kNumPhases + 3] = static_cast<double>(mine.peak_bytes.value());
  packed[kNumPhases + 4] = static_cast<double>(mine.resident_bytes.value());
  packed[kNumPhases + 5] = static_cast<double>(mine.offload_bytes.value());
  packed[kNumPhases + 6] = static_cast<double>(mine.reduce_bytes.value());
  std::copy(mine.times.allocations.begin(), mine.times.allocations.end(),
            packed.begin() + kNumPhases + 7);
  const auto all = gather_all<double>(comm, packed, {.operation = "step measures", .step = step});
  std::vector<RankMeasures> measures(static_cast<std::size_t>(comm.size()));
  for (std::size_t r = 0; r < measures.size(); ++r) {
    const double* values = all.data() + r * kFields;
    std::copy(values, values + kNumPhases, measures[r].times.seconds.begin());
    measures[r].times.step_s = values[kNumPhases];
    measures[r].times.busy_s = values[kNumPhases + 1];
    measures[r].exchange_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 2]));
    measures[r].peak_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 3]));
    measures[r].resident_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 4]));
    measures[r].offload_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 5]));
    measures[r].reduce_bytes = Bytes(static_cast<std::int64_t>(values[kNumPhases + 6]));
    std::transform(values + kNumPhases + 7, values + kFields, measures[r].times.allocations.begin(),
                   [](double count) { return static_cast<std::int64_t>(count); });
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

// The prediction is meant to make this impossible; should it be wrong, the user learns it.
void warn_over_budget(const MemoryBudget& budget, const StepMetrics& metrics) {
  if (budget.bytes == Bytes(0) || metrics.peak_bytes <= budget.bytes) return;
  log_warn(
      "step {} took {} of tensors on a rank, more than memory.budget_bytes = {} and than the {} "
      "that were predicted; lower plan.capacity, and please report this",
      metrics.step, format_bytes(metrics.peak_bytes), format_bytes(budget.bytes),
      format_bytes(metrics.predicted_peak_bytes));
}

// What one rank holds during the run.
class RankLoop {
 public:
  RankLoop(const StepLoop& loop, const SequenceSource& source, PlanFeed* feed, Communicator& comm,
           AllocationCounter& memory);
  LoopEnd run();

 private:
  bool reports() const { return comm_.rank() == kPlanner; }
  void run_step(PlannedStep& planned, Bytes ring_bytes_before);
  StepOutcome run_traced(const PlanSlice& slice);
  bool save();  // false: it failed, and every rank knows

  const StepLoop& loop_;
  Communicator& comm_;
  ParameterSet parameters_;
  std::unique_ptr<AttentionKernel> kernel_;
  OperationTrace trace_;
  Decoder decoder_;
  AdamW optimizer_;
  std::unique_ptr<OffloadTier> offload_tier_;  // null: no plan offloads
  RankState state_;
  PhaseClock clock_;
  AllocationCounter& memory_;
  std::unique_ptr<PlanAhead> plans_;  // rank 0 only
  RunPosition position_;              // `reader` and `dropped_sequences` are right on rank 0 only
  std::int64_t saved_step_ = -1;
};

RankLoop::RankLoop(const StepLoop& loop, const SequenceSource& source, PlanFeed* feed,
                   Communicator& comm, AllocationCounter& memory)
    : loop_(loop),
      comm_(comm),
      parameters_(loop.model, loop.dtype),
      kernel_(make_attention_kernel(loop.attention, loop.threads_per_rank)),
      trace_([&comm] { return comm.now(); }),
      decoder_(loop.model, parameters_, *kernel_, {.recompute = loop.recompute, .trace = &trace_}),
      optimizer_(parameters_, loop.optimizer),
      offload_tier_(loop.make_offload_tier ? loop.make_offload_tier() : nullptr),
      state_{.comm = comm,
             .source = source,
             .parameters = parameters_,
             .decoder = decoder_,
             .optimizer = optimizer_,
             .schedule = loop.schedule,
             .options = loop.step_options,
             .trace = &trace_,
             .offload_tier = offload_tier_.get(),
             .offloaded = {},
             .skipped_steps = loop.start.step - loop.start.num_updates},
      clock_(comm, memory, &state_.offloaded),
      memory_(memory),
      position_(loop.start) {
  if (loop.load_from.empty()) {
    parameters_.initialize(loop.seed);
  } else {
    load_checkpoint(comm, loop.load_from, parameters_, optimizer_);
    saved_step_ = loop.start.step;
  }
  if (reports()) {
    WEFT_CHECK(feed != nullptr, "rank {} plans and needs a feed", comm.rank());
    plans_ = std::make_unique<PlanAhead>(
        *feed, PlanAheadOptions{.num_ranks = loop.num_ranks,
                                .offload_layers = static_cast<std::int32_t>(
                                    offload_tier_ ? loop.model.num_layers : 0),
                                .num_steps = loop.num_steps - loop.start.step,
                                .depth = loop.plans_ahead,
                                .memory = loop.memory,
                                .ranks_here = loop.ranks_here,
                                .reserve = fetch_large_blocks});
  }
}

LoopEnd RankLoop::run() {
  LoopEnd end = LoopEnd::kFinished;
  while (position_.step < loop_.num_steps) {
    state_.offloaded = {};
    clock_.start(Phase::kPlan);
    memory_.reset_peak();
    const Bytes ring_bytes_before = comm_.stats(Channel::kRing).bytes_sent;
    PlannedStep planned = plan_step(comm_, plans_.get(), loop_, position_.step);
    if (check_same_plan(comm_, planned.slice, loop_.stop_requested && loop_.stop_requested())) {
      end = LoopEnd::kStopped;
      break;
    }
    run_step(planned, ring_bytes_before);
    const bool due = loop_.save_interval > 0 && position_.step % loop_.save_interval == 0;
    if (due && position_.step < loop_.num_steps) save();
  }
  if (saved_step_ != position_.step && !save()) {
    throw IoError("the last save failed, see above; what was saved earlier is untouched");
  }
  if (reports() && end == LoopEnd::kFinished && loop_.on_finished) loop_.on_finished(parameters_);
  return end;
}

void RankLoop::run_step(PlannedStep& planned, Bytes ring_bytes_before) {
  const Bytes reduce_bytes_before = comm_.stats(Channel::kReduce).bytes_sent;
  const StepOutcome outcome = position_.step == loop_.trace_step
                                  ? run_traced(planned.slice)
                                  : train_step(state_, planned.slice, clock_);
  const RankMeasures mine{
      .times = outcome.times,
      .exchange_bytes = comm_.stats(Channel::kRing).bytes_sent - ring_bytes_before,
      .reduce_bytes = comm_.stats(Channel::kReduce).bytes_sent - reduce_bytes_before,
      .offload_bytes = state_.offloaded.bytes,
      .peak_bytes = memory_.peak(),
      .resident_bytes = std::max(Bytes(0), resident_size(system_text()) - loop_.resident_before)};
  const auto measures = gather_measures(comm_, mine, position_.step);
  ++position_.step;
  position_.num_updates = optimizer_.num_updates();
  if (!reports()) return;
  position_.reader = planned.reader;
  position_.dropped_sequences = planned.metrics.dropped_sequences;
  planned.metrics.skipped_steps = state_.skipped_steps;
  if (!loop_.load_from.empty()) planned.metrics.resumed_at = loop_.start.step;
  finish_metrics(loop_, planned, outcome, measures, planned.metrics);
  warn_over_budget(loop_.memory, planned.metrics);
  if (loop_.on_step) loop_.on_step(planned.metrics);
}

StepOutcome RankLoop::run_traced(const PlanSlice& slice) {
  const auto start = comm_.now();
  trace_.start();
  const StepOutcome outcome = train_step(state_, slice, clock_);
  const std::chrono::duration<double> elapsed = comm_.now() - start;
  const RankTrace mine = summarise(trace_.stop(), elapsed.count(), comm_.rank());
  const auto traces = gather_traces(comm_, mine, slice.step);
  if (reports() && loop_.on_trace) loop_.on_trace(slice.step, traces);
  return outcome;
}

bool RankLoop::save() {
  if (loop_.checkpoints.folder.empty()) return true;
  const auto start = std::chrono::steady_clock::now();
  const auto failure = save_checkpoint(
      comm_, loop_.checkpoints, position_.step,
      {.position = position_, .corpus_hash = loop_.corpus_hash, .config = loop_.config},
      parameters_, optimizer_);
  if (failure) {
    if (reports()) {
      log_warn("step {} could not be saved: rank {}: {}; earlier checkpoints are untouched",
               position_.step, failure->rank, failure->reason);
    }
    return false;
  }
  saved_step_ = position_.step;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (reports() && loop_.on_saved) loop_.on_saved(position_, elapsed.count());
  return true;
}

}  // namespace

Bytes prepare_process(std::int32_t threads_per_rank) {
  install_counting_allocator();
  keep_freed_memory();
  if (!set_blas_threads(threads_per_rank)) {
    log_warn(
        "the BLAS in use ({}) does not let its threads be set: ranks may share cores badly; "
        "install OpenBLAS",
        blas_description());
  }
  return resident_size(system_text());
}

LoopEnd run_steps(const StepLoop& loop, const SequenceSource& source, PlanFeed* feed,
                  Communicator& comm) {
  WEFT_CHECK_EQ(comm.size(), loop.num_ranks, "the world has another size than the plans");
  set_compute_threads(loop.threads_per_rank);
  AllocationCounter memory;
  const AllocationScope counting(memory);
  return RankLoop(loop, source, feed, comm, memory).run();
}

LoopEnd run_step_loop(const StepLoop& loop, const SequenceSource& source, PlanFeed& feed) {
  prepare_process(loop.threads_per_rank);
  LoopEnd end = LoopEnd::kFinished;
  run_thread_ranks({.num_ranks = loop.num_ranks, .wait_limit = loop.wait_limit},
                   [&](Communicator& comm) {
                     const LoopEnd own = run_steps(loop, source, &feed, comm);
                     if (comm.rank() == kPlanner) end = own;
                   });
  return end;
}

}  // namespace weft
