#include "train/profile.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "comm/collectives.h"
#include "memory/counting_allocator.h"
#include "optim/gradient_reduction.h"
#include "train/timed_hops.h"
#include "train/timed_runs.h"

namespace weft {
namespace {

// All ranks sum buffers of up to the model's size; a rank sends 2 (N - 1) / N of it.
std::vector<ReductionSample> time_reductions(const ProfileOptions& options, Communicator& comm) {
  constexpr int kRuns = 5;
  const std::int64_t most = num_parameters(options.model.model);
  std::vector<ReductionSample> reductions;
  for (std::int64_t size = most; size >= 1024 && reductions.size() < 4; size /= 8) {
    const at::Tensor flat = at::zeros({size}, options.model.dtype);
    const double seconds = median_seconds_of(comm, kRuns + 1, [&](int i) {
      barrier(comm, {.operation = "profile reduction", .hop = i});
      all_reduce_gradients(comm, flat, options.bucket_bytes, 0);
    });
    const auto bytes = static_cast<std::int64_t>(flat.nbytes());
    reductions.push_back({Bytes(2 * bytes * (comm.size() - 1) / comm.size()), seconds});
  }
  return reductions;
}

void describe(const ProfileOptions& options, CostModel& cost) {
  const ModelConfig& model = options.model.model;
  const double element_bytes = options.model.dtype == at::kDouble ? 8 : 4;
  cost.name = "measured";
  cost.source = fmt::format(
      "weft profile: {} layers, hidden {}, {} heads of {}, {} key/value heads, feed-forward {}, "
      "vocabulary {}, {}, attention {}, {} compute threads, micro-batches of up to {} tokens",
      model.num_layers, model.hidden_size, model.num_heads, model.head_dim, model.num_kv_heads,
      model.intermediate_size, model.vocab_size, dtype_name(options.model.dtype),
      options.model.attention, options.model.threads, options.capacity);
  cost.num_layers = static_cast<std::int32_t>(model.num_layers);
  cost.kv_bytes_per_token =
      2 * static_cast<double>(model.num_kv_heads * model.head_dim) * element_bytes;
  cost.gradient_bytes = static_cast<double>(num_parameters(model)) * element_bytes;
}

// What rank 0 measures alone.
void profile_compute(const ProfileOptions& options, Profile& profile) {
  reserve_states(Bytes(std::llround(4 * profile.cost.gradient_bytes)), 1);  // as the trainer does
  TimedModel model(options.model);
  profile.batches = profile_shapes(options.capacity, options.model.threads == 1);
  model.time(profile.batches, options.seconds);
  std::vector<MicroBatchSample> samples;
  for (const ProfiledBatch& batch : profile.batches) samples.push_back(batch.median);
  profile.compute_fit = fit_compute(samples, profile.cost);
  std::vector<std::vector<double>> runs_s;
  for (const ProfiledBatch& batch : profile.batches) runs_s.push_back(batch.rank_runs_s);
  fit_spread(runs_s, profile.cost);
  profile.cost.optimizer_ns_per_byte =
      1e9 * model.time_optimizer(profile.batches.front()) / profile.cost.gradient_bytes;
}

}  // namespace

std::vector<ProfiledBatch> profile_shapes(Tokens capacity, bool with_rings) {
  std::vector<ProfiledBatch> shapes;
  const auto add = [&](std::int64_t tokens, std::int64_t count, std::int32_t degree = 1) {
    if (tokens / count < 2)
      return;  // a sequence of one token has no target and no pairs to speak of
    shapes.push_back(
        {.num_sequences = count, .tokens_each = Tokens(tokens / count), .degree = degree});
  };
  const std::int64_t most = capacity.value();
  for (const std::int64_t count : {1, 4, 16, 64}) add(most, count);
  for (const std::int64_t count : {1, 4, 16}) add(most / 2, count);
  for (const std::int64_t count : {1, 8}) add(most / 4, count);
  for (const std::int64_t part : {8, 16, 64}) add(most / part, 1);
  if (!with_rings) return shapes;
  // All members' activations are held at once: two capacities at most.
  for (const std::int64_t part : {1, 4, 16}) add(most / part, 1, 2);
  for (const std::int64_t part : {2, 8, 32}) add(most / part, 1, 4);
  for (const std::int64_t part : {4, 16, 64}) add(most / part, 1, 8);
  return shapes;
}

Profile profile_machine(const ProfileOptions& options, Communicator& comm) {
  WEFT_USER_CHECK(comm.size() >= 2, "profiling needs 2 ranks, to time what they exchange; got {}",
                  comm.size());
  const bool measures = comm.rank() == Rank(0);
  Profile profile;
  describe(options, profile.cost);
  if (measures) profile_compute(options, profile);
  profile.hops = time_hops(comm, options.capacity, profile.cost.kv_bytes_per_token);
  profile.reductions = time_reductions(options, comm);
  if (!measures) return {};
  profile.hop_fit = fit_hop(profile.hops, profile.cost);
  profile.reduction_fit = fit_reduction(profile.reductions, profile.cost);
  return profile;
}

}  // namespace weft
