#include "train/profile.h"

#include <algorithm>
#include <chrono>

#include "attention/attention_layout.h"
#include "base/error.h"
#include "base/random.h"
#include "comm/collectives.h"
#include "loader/packed_micro_batch.h"
#include "machine/work_clock.h"
#include "model/decoder.h"

namespace weft {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kMostRuns = 9;  // of one micro-batch
constexpr int kHopRuns = 15;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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

// One micro-batch of whole sequences, as a plan of one rank would give it.
PlanSlice slice_of(const ProfiledBatch& batch) {
  const std::int64_t length = batch.tokens_each.value();
  PlanSlice slice;
  MicroBatch micro_batch;
  for (std::int64_t id = 0; id < batch.num_sequences; ++id) {
    slice.sequences.push_back({.id = id, .tokens = batch.tokens_each, .num_targets = length - 1});
    micro_batch.pieces.push_back({.sequence_idx = static_cast<std::int32_t>(id),
                                  .group_idx = kNoGroup,
                                  .range = {0, length}});
  }
  slice.total_weight = total_weight(slice.sequences, slice.weighting);
  slice.micro_batches.push_back(std::move(micro_batch));
  return slice;
}

// A rank's model, to be timed.
class TimedModel {
 public:
  explicit TimedModel(const ProfileOptions& options)
      : options_(options),
        parameters_(options.model, options.dtype),
        kernel_(make_attention_kernel(options.attention, options.threads_per_rank)),
        decoder_(options.model, parameters_, *kernel_, {.recompute = options.recompute}) {
    parameters_.initialize(kSeed);
  }

  // Runs the micro-batch for about `limit_s` and sets its median times.
  void time(ProfiledBatch& batch, double limit_s) {
    const PlanSlice slice = slice_of(batch);
    const MicroBatch& micro_batch = slice.micro_batches.front();
    const RandomSequences source(options_.model.vocab_size, batch.tokens_each);
    const PackedMicroBatch packed = pack_micro_batch(slice, micro_batch, source);
    const AttentionLayout layout = make_attention_layout(slice, micro_batch);
    run(packed, layout);  // brings memory and code in
    std::vector<double> forward_s, backward_s;
    const double start = wall_seconds();
    do {
      const auto [forward, backward] = run(packed, layout);
      forward_s.push_back(forward);
      backward_s.push_back(backward);
    } while (static_cast<std::int64_t>(forward_s.size()) < kMostRuns &&
             wall_seconds() - start < limit_s);
    const std::int64_t length = batch.tokens_each.value();
    batch.num_runs = static_cast<std::int64_t>(forward_s.size());
    batch.median = {.tokens = Tokens(batch.num_sequences * length),
                    .work = batch.num_sequences * causal_work({0, length}),
                    .forward_s = median(std::move(forward_s)),
                    .backward_s = median(std::move(backward_s))};
  }

 private:
  double now() const {
    return options_.threads_per_rank == 1 ? thread_cpu_seconds() : wall_seconds();
  }

  std::pair<double, double> run(const PackedMicroBatch& packed, const AttentionLayout& layout) {
    const double start = now();
    ForwardResult forward = decoder_.forward(packed, layout, {});
    const double between = now();
    decoder_.backward(std::move(forward), packed, layout, {});
    return {between - start, now() - between};
  }

  const ProfileOptions& options_;
  ParameterSet parameters_;
  std::unique_ptr<AttentionKernel> kernel_;
  Decoder decoder_;
};

// Ranks 0 and 1 send each other K and V of so many tokens; the median of rank 0's times.
HopSample time_hop(Communicator& comm, Tokens tokens, double kv_bytes_per_token) {
  const auto bytes =
      static_cast<std::size_t>(kv_bytes_per_token * static_cast<double>(tokens.value()));
  const std::vector<std::byte> leaving(bytes);
  std::vector<std::byte> arriving(bytes);
  const Rank other(1 - comm.rank().value());
  const SendOp send{other, leaving.data(), Bytes(static_cast<std::int64_t>(bytes))};
  const RecvOp recv{other, arriving.data(), Bytes(static_cast<std::int64_t>(bytes))};
  std::vector<double> seconds;
  for (int i = 0; i < kHopRuns; ++i) {
    const auto start = comm.now();
    comm.exchange(Channel::kRing, {.operation = "profile hop", .hop = i}, {&send, 1}, {&recv, 1})
        .wait();
    seconds.push_back(std::chrono::duration<double>(comm.now() - start).count());
  }
  return {tokens, median(std::move(seconds))};
}

std::vector<HopSample> time_hops(Communicator& comm, Tokens capacity, double kv_bytes_per_token) {
  std::vector<HopSample> hops;
  for (std::int64_t tokens = capacity.value(); tokens >= 1; tokens /= 4) {
    barrier(comm, {.operation = "profile hops"});
    if (comm.rank().value() < 2) {
      hops.push_back(time_hop(comm, Tokens(tokens), kv_bytes_per_token));
    }
  }
  return hops;
}

void describe(const ProfileOptions& options, CostModel& cost) {
  const ModelConfig& model = options.model;
  const double element_bytes = options.dtype == at::kDouble ? 8 : 4;
  cost.name = "measured";
  cost.source = fmt::format(
      "weft profile: {} layers, hidden {}, {} heads of {}, {} key/value heads, feed-forward {}, "
      "vocabulary {}, {}, attention {}, {} compute threads, micro-batches of up to {} tokens",
      model.num_layers, model.hidden_size, model.num_heads, model.head_dim, model.num_kv_heads,
      model.intermediate_size, model.vocab_size, dtype_name(options.dtype), options.attention,
      options.threads_per_rank, options.capacity);
  cost.num_layers = static_cast<std::int32_t>(model.num_layers);
  cost.kv_bytes_per_token =
      2 * static_cast<double>(model.num_kv_heads * model.head_dim) * element_bytes;
}

}  // namespace

std::vector<ProfiledBatch> profile_shapes(Tokens capacity) {
  std::vector<ProfiledBatch> shapes;
  const auto add = [&](std::int64_t tokens, std::int64_t count) {
    if (tokens / count < 2)
      return;  // a sequence of one token has no target and no pairs to speak of
    shapes.push_back({.num_sequences = count, .tokens_each = Tokens(tokens / count)});
  };
  const std::int64_t most = capacity.value();
  for (const std::int64_t count : {1, 4, 16, 64}) add(most, count);
  for (const std::int64_t count : {1, 4, 16}) add(most / 2, count);
  for (const std::int64_t count : {1, 8}) add(most / 4, count);
  for (const std::int64_t part : {8, 16, 64}) add(most / part, 1);
  return shapes;
}

Profile profile_machine(const ProfileOptions& options, Communicator& comm,
                        const std::function<void(const ProfiledBatch&)>& on_batch) {
  WEFT_USER_CHECK(comm.size() >= 2, "profiling needs 2 ranks, to time what they exchange; got {}",
                  comm.size());
  const bool measures = comm.rank() == Rank(0);
  Profile profile;
  describe(options, profile.cost);
  if (measures) {
    TimedModel model(options);
    profile.batches = profile_shapes(options.capacity);
    const double share_s = options.seconds / static_cast<double>(profile.batches.size());
    std::vector<MicroBatchSample> samples;
    for (ProfiledBatch& batch : profile.batches) {
      model.time(batch, share_s);
      samples.push_back(batch.median);
      if (on_batch) on_batch(batch);
    }
    profile.compute_fit = fit_compute(samples, profile.cost);
  }
  profile.hops = time_hops(comm, options.capacity, profile.cost.kv_bytes_per_token);
  if (!measures) return {};
  profile.hop_fit = fit_hop(profile.hops, profile.cost);
  return profile;
}

}  // namespace weft
