#include "train/timed_model.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
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
constexpr std::size_t kMostRuns = 9;  // of one micro-batch

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The rank's time so far without what it waited for other members of its ring.
double own_seconds(const Communicator& comm) {
  return std::chrono::duration<double>(comm.now()).count() -
         seconds(comm.stats(Channel::kRing).blocked);
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

namespace {

void add_run(std::span<const PassTimes> ranks, ProfiledBatch& batch) {
  PassTimes mean;
  for (const PassTimes& rank : ranks) {
    mean.forward_s += rank.forward_s / static_cast<double>(ranks.size());
    mean.backward_s += rank.backward_s / static_cast<double>(ranks.size());
    batch.rank_runs_s.push_back(rank.forward_s + rank.backward_s);
  }
  batch.runs.push_back(mean);
}

void set_median(ProfiledBatch& batch) {
  std::vector<double> forward_s, backward_s;
  for (const PassTimes& run : batch.runs) {
    forward_s.push_back(run.forward_s);
    backward_s.push_back(run.backward_s);
  }
  batch.median = shape_of(batch, plan_of(batch));
  batch.median.forward_s = median(std::move(forward_s));
  batch.median.backward_s = median(std::move(backward_s));
}

}  // namespace

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

void TimedModel::time(std::span<ProfiledBatch> batches, double limit_s) {
  std::vector<double> spent_s(batches.size());
  const auto run_one = [&](std::size_t i) {
    const double start = wall_seconds();
    add_run(run(batches[i]), batches[i]);
    spent_s[i] += wall_seconds() - start;
  };
  for (const ProfiledBatch& batch : batches) run(batch);  // brings memory and code in
  for (std::size_t i = 0; i < batches.size(); ++i) run_one(i);
  while (std::accumulate(spent_s.begin(), spent_s.end(), 0.0) < limit_s) {
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      if (batches[i].runs.size() < kMostRuns && (!next || spent_s[i] < spent_s[*next])) next = i;
    }
    if (!next) break;
    run_one(*next);
  }
  for (ProfiledBatch& batch : batches) set_median(batch);
}

std::vector<PassTimes> TimedModel::run(const ProfiledBatch& batch) {
  WEFT_CHECK(batch.degree == 1 || options_.threads == 1,
             "profile: a ring of {} ranks on {} threads each", batch.degree, options_.threads);
  return batch.degree == 1 ? std::vector{run_whole(batch)} : run_ring(batch);
}

PassTimes TimedModel::run_whole(const ProfiledBatch& batch) {
  const StepPlan plan = plan_of(batch);
  const RandomSequences source(options_.model.vocab_size, batch.tokens_each);
  const RankBatch rank(plan, Rank(0), source);
  const double start = now();
  ForwardResult forward = decoder_.forward(rank.packed, rank.layout, {});
  const double between = now();
  decoder_.backward(std::move(forward), rank.packed, rank.layout, {});
  return {between - start, now() - between};
}

std::vector<PassTimes> TimedModel::run_ring(const ProfiledBatch& batch) {
  const StepPlan plan = plan_of(batch);
  const RandomSequences source(options_.model.vocab_size,
                               Tokens(batch.tokens_each.value() * batch.degree));
  constexpr VirtualLink kFreeLink{.bytes_per_second = 1e18, .latency = {}};
  const VirtualWorldOptions world{
      .num_ranks = batch.degree, .link = kFreeLink, .wait_limit = std::chrono::hours(2)};
  std::vector<PassTimes> times(plan.ranks.size());
  run_virtual_ranks(world, [&](Communicator& comm) {
    const RankBatch rank(plan, comm.rank(), source);
    Decoder decoder(options_.model, parameters_, *kernel_, {.recompute = options_.recompute});
    const RingContext ring{.comm = &comm};
    barrier(comm, {.operation = "profile ring"});
    const double start = own_seconds(comm);
    ForwardResult forward = decoder.forward(rank.packed, rank.layout, ring);
    const double between = own_seconds(comm);
    decoder.backward(std::move(forward), rank.packed, rank.layout, ring);
    times[static_cast<std::size_t>(comm.rank().value())] = {between - start,
                                                            own_seconds(comm) - between};
  });
  return times;
}

double TimedModel::time_optimizer(const ProfiledBatch& before) {
  AdamW optimizer(parameters_, {});
  std::vector<double> times_s;
  for (std::size_t i = 0; i <= kMostRuns; ++i) {
    run(before);
    const double start = now();
    parameters_.zero_gradients();
    const double norm = global_norm(parameters_.flat_gradients());
    optimizer.update(parameters_, 0, clip_scale(norm, 1));
    if (i > 0) times_s.push_back(now() - start);  // the first brings memory in
  }
  return median(std::move(times_s));
}

}  // namespace weft
