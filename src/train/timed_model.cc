#include "train/timed_model.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "attention/attention_layout.h"
#include "base/error.h"
#include "base/random.h"
#include "comm/collectives.h"
#include "comm/virtual/virtual_world.h"
#include "loader/packed_micro_batch.h"
#include "machine/work_clock.h"
#include "optim/adamw.h"
#include "optim/gradient_reduction.h"
#include "plan/plan_builder.h"
#include "plan/plan_slice.h"

namespace weft {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kMostRuns = 9;  // of one micro-batch

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double to_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Every sequence is another run of random tokens; the last predicts nothing.
class RandomSequences final : public SequenceSource {
 public:
  RandomSequences(std::int64_t vocab_size, Tokens tokens_each)
      : stream_(kSeed, "profile"),
        vocab_size_(static_cast<std::uint64_t>(vocab_size)),
        length_(tokens_each.value()) {}

  void read_tokens(std::int64_t id, TokenRange range, std::span<TokenId> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = token(id, range.begin + static_cast<std::int64_t>(i));
    }
  }
  void read_targets(std::int64_t id, TokenRange range, std::span<TokenId> targets) const override {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const std::int64_t next = range.begin + static_cast<std::int64_t>(i) + 1;
      targets[i] = next == length_ ? kNoTarget : token(id, next);
    }
  }

 private:
  TokenId token(std::int64_t id, std::int64_t position) const {
    return static_cast<TokenId>(
        stream_.below(static_cast<std::uint64_t>(id * length_ + position), vocab_size_));
  }
  RandomStream stream_;
  std::uint64_t vocab_size_;
  std::int64_t length_;
};

// The plan of one step of this micro-batch alone.
StepPlan plan_of(const ProfiledBatch& batch) {
  const std::int64_t length = batch.tokens_each.value() * batch.degree;
  StepPlan plan;
  plan.num_ranks = batch.degree;
  for (std::int64_t id = 0; id < batch.num_sequences; ++id)
    plan.sequences.push_back({.id = id, .tokens = Tokens(length), .num_targets = length - 1});
  std::vector<Rank> ranks;
  for (std::int32_t rank = 0; rank < batch.degree; ++rank) ranks.emplace_back(rank);
  PlanBuilder builder(plan);
  builder.open_slot();
  for (std::int32_t idx = 0; idx < batch.num_sequences; ++idx) builder.add_shared(idx, ranks);
  return plan;
}

// Of the rank that computes most.
MicroBatchSample shape_of(const ProfiledBatch& batch, const StepPlan& plan) {
  MicroBatchSample shape{.ring_steps = batch.degree - 1};
  for (const std::vector<MicroBatch>& rank : plan.ranks) {
    std::int64_t work = 0;
    for (const Piece& piece : rank.front().pieces) work += causal_work(piece.range);
    shape.work = std::max(shape.work, work);
    shape.tokens = std::max(shape.tokens, rank.front().tokens());
  }
  return shape;
}

// A micro-batch as a rank runs it.
struct RankBatch {
  PlanSlice slice;
  PackedMicroBatch packed;
  AttentionLayout layout;

  RankBatch(const StepPlan& plan, Rank rank, const SequenceSource& source)
      : slice(slice_plan(plan, {}, rank)),
        packed(pack_micro_batch(slice, slice.micro_batches.front(), source)),
        layout(make_attention_layout(slice, slice.micro_batches.front())) {}
};

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

TimedModel::TimedModel(const TimedModelOptions& options)
    : options_(options),
      parameters_(options_.model, options_.dtype),
      kernel_(make_attention_kernel(options_.attention, options_.threads)),
      decoder_(options_.model, parameters_, *kernel_, {.recompute = options_.recompute}) {
  parameters_.initialize(kSeed);
}

double TimedModel::now() const {
  return options_.threads == 1 ? seconds(thread_cpu_time()) : wall_seconds();
}

void TimedModel::time(ProfiledBatch& batch, double limit_s) {
  WEFT_CHECK(batch.degree == 1 || options_.threads == 1,
             "profile: a ring of {} ranks on {} threads each", batch.degree, options_.threads);
  batch.degree == 1 ? time_whole(batch, limit_s) : time_ring(batch, limit_s);
}

void TimedModel::time_whole(ProfiledBatch& batch, double limit_s) {
  const StepPlan plan = plan_of(batch);
  const RandomSequences source(options_.model.vocab_size, batch.tokens_each);
  const RankBatch rank(plan, Rank(0), source);
  const auto run = [&]() -> Times {
    const double start = now();
    ForwardResult forward = decoder_.forward(rank.packed, rank.layout, {});
    const double between = now();
    decoder_.backward(std::move(forward), rank.packed, rank.layout, {});
    return {between - start, now() - between};
  };
  run();  // brings memory and code in
  std::vector<double> forward_s, backward_s;
  const double start = wall_seconds();
  do {
    const Times times = run();
    forward_s.push_back(times.forward_s);
    backward_s.push_back(times.backward_s);
  } while (static_cast<std::int64_t>(forward_s.size()) < kMostRuns &&
           wall_seconds() - start < limit_s);
  batch.num_runs = static_cast<std::int64_t>(forward_s.size());
  batch.median = shape_of(batch, plan);
  batch.median.forward_s = median(std::move(forward_s));
  batch.median.backward_s = median(std::move(backward_s));
}

// A run ends when its slowest rank does, so that rank's time is the time of the run.
void TimedModel::time_ring(ProfiledBatch& batch, double limit_s) {
  const StepPlan plan = plan_of(batch);
  const RandomSequences source(options_.model.vocab_size,
                               Tokens(batch.tokens_each.value() * batch.degree));
  constexpr VirtualLink kFreeLink{.bytes_per_second = 1e18, .latency = {}};
  std::vector<std::vector<Times>> runs(kMostRuns, std::vector<Times>(plan.ranks.size()));
  std::int64_t num_runs = kMostRuns;  // settled by rank 0 between two barriers
  const VirtualWorldOptions world{
      .num_ranks = batch.degree, .link = kFreeLink, .wait_limit = std::chrono::hours(2)};
  run_virtual_ranks(world, [&](Communicator& comm) {
    const RankBatch rank(plan, comm.rank(), source);
    Decoder decoder(options_.model, parameters_, *kernel_, {.recompute = options_.recompute});
    const RingContext ring{.comm = &comm};
    const auto run = [&]() -> Times {
      barrier(comm, {.operation = "profile ring"});
      const auto start = comm.now();
      ForwardResult forward = decoder.forward(rank.packed, rank.layout, ring);
      const auto between = comm.now();
      decoder.backward(std::move(forward), rank.packed, rank.layout, ring);
      return {to_seconds(between - start), to_seconds(comm.now() - between)};
    };
    const double start = wall_seconds();
    run();
    if (comm.rank() == Rank(0)) {
      const double runs_in_time = limit_s / std::max(1e-9, wall_seconds() - start);
      num_runs = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(runs_in_time, 1e6)), 1,
                                          kMostRuns);
    }
    barrier(comm, {.operation = "profile ring"});
    for (std::int64_t i = 0; i < num_runs; ++i) {
      runs[static_cast<std::size_t>(i)][static_cast<std::size_t>(comm.rank().value())] = run();
    }
  });
  std::vector<double> forward_s, backward_s;
  for (std::int64_t i = 0; i < num_runs; ++i) {
    const auto slowest = *std::max_element(
        runs[static_cast<std::size_t>(i)].begin(), runs[static_cast<std::size_t>(i)].end(),
        [](const Times& a, const Times& b) {
          return a.forward_s + a.backward_s < b.forward_s + b.backward_s;
        });
    forward_s.push_back(slowest.forward_s);
    backward_s.push_back(slowest.backward_s);
  }
  batch.num_runs = num_runs;
  batch.median = shape_of(batch, plan);
  batch.median.forward_s = median(std::move(forward_s));
  batch.median.backward_s = median(std::move(backward_s));
}

double TimedModel::time_optimizer() {
  AdamW optimizer(parameters_, {});
  std::vector<double> times_s;
  for (std::int64_t i = 0; i <= kMostRuns; ++i) {
    const double start = now();
    parameters_.zero_gradients();
    const double norm = global_norm(parameters_.flat_gradients());
    optimizer.update(parameters_, 0, clip_scale(norm, 1));
    if (i > 0) times_s.push_back(now() - start);  // the first brings memory in
  }
  return median(std::move(times_s));
}

}  // namespace weft
