// One training step on ranks: what a plan makes of a step, for comparison with the oracle.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"
#include "tests/support/test_ranks.h"
#include "tests/support/tiny_model.h"

namespace weft::testing {

struct RankedStep {
  double loss = 0;       // sum over ranks
  at::Tensor gradients;  // [P], sum over ranks
};

struct StepSetting {
  ModelConfig config;
  at::ScalarType dtype = at::kDouble;
  const char* kernel = "reference";
  Recompute recompute = Recompute::kNone;
  std::function<std::unique_ptr<OffloadTier>()> make_tier = {};  // of each rank; may be empty
};

inline void sum_over_ranks(Communicator& comm, const at::Tensor& flat) {
  const OpLabel label{.operation = "test gradients"};
  const auto count = static_cast<std::size_t>(flat.numel());
  if (flat.scalar_type() == at::kDouble) {
    all_reduce(comm, std::span(flat.data_ptr<double>(), count), ReduceOp::kSum, label);
  } else {
    all_reduce(comm, std::span(flat.data_ptr<float>(), count), ReduceOp::kSum, label);
  }
}

// Every rank obeys its slice of the plan, micro-batch by micro-batch.
inline RankedStep run_on_ranks(const StepSetting& setting, const StepPlan& plan,
                               const MemorySource& source) {
  validate(plan);
  set_blas_threads(1);
  const Hash128 hash = plan_hash(plan);
  RankedStep step;
  run_test_ranks(plan.num_ranks, [&](Communicator& comm) {
    set_compute_threads(1);
    TinyModel model(setting.config, setting.dtype, setting.kernel, setting.recompute);
    const PlanSlice slice = slice_plan(plan, hash, comm.rank());
    const RingContext ring{.comm = &comm, .step = plan.step};
    const std::unique_ptr<OffloadTier> tier = setting.make_tier ? setting.make_tier() : nullptr;
    double loss = 0;
    for (const MicroBatch& micro_batch : slice.micro_batches) {
      const AttentionLayout layout = make_attention_layout(slice, micro_batch);
      const PackedMicroBatch batch = pack_micro_batch(slice, micro_batch, source);
      ForwardResult result = model.decoder.forward(
          batch, layout, ring, {.tier = tier.get(), .ratio = micro_batch.offload_ratio});
      loss += result.loss;
      model.decoder.backward(std::move(result), batch, layout, ring);
    }
    all_reduce(comm, std::span(&loss, 1), ReduceOp::kSum, {.operation = "test loss"});
    sum_over_ranks(comm, model.parameters.flat_gradients());
    if (keeps_results(comm)) step = {.loss = loss, .gradients = model.parameters.flat_gradients()};
  });
  return step;
}

// A plan of one micro-batch per rank: sequence i (canonical order) runs on ranks placement[i];
// several ranks share it by the zigzag of as many of them as it has tokens for.
inline StepPlan placed_plan(const MemorySource& source, std::int32_t num_ranks,
                            LossWeighting weighting,
                            const std::vector<std::vector<std::int32_t>>& placement) {
  StepPlan plan;
  plan.strategy = "placed by a test";
  plan.num_ranks = num_ranks;
  plan.capacity = Tokens(1 << 20);
  plan.weighting = weighting;
  plan.sequences = source.specs();
  plan.num_slots = plan.sequences.empty() ? 0 : 1;
  std::vector<MicroBatch> micro_batches(static_cast<std::size_t>(num_ranks));
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const Tokens tokens = plan.sequences[i].tokens;
    const auto sequence_idx = static_cast<std::int32_t>(i);
    const auto degree = static_cast<std::int32_t>(
        std::min<std::int64_t>(static_cast<std::int64_t>(placement[i].size()), tokens.value()));
    if (degree > 1)
      plan.groups.push_back({.sequence_idx = sequence_idx, .slot_idx = 0, .ranks = {}});
    for (std::int32_t position = 0; position < degree; ++position) {
      const std::int32_t rank = placement[i][static_cast<std::size_t>(position)];
      if (degree > 1) plan.groups.back().ranks.push_back(Rank(rank));
      const auto group_idx =
          degree > 1 ? static_cast<std::int32_t>(plan.groups.size()) - 1 : kNoGroup;
      for (const TokenRange range : zigzag_ranges(tokens, degree, position)) {
        micro_batches[static_cast<std::size_t>(rank)].pieces.push_back(
            {.sequence_idx = sequence_idx, .group_idx = group_idx, .range = range});
      }
    }
  }
  for (MicroBatch& micro_batch : micro_batches) {
    plan.ranks.emplace_back();
    if (!micro_batch.pieces.empty()) plan.ranks.back().push_back(std::move(micro_batch));
  }
  return plan;
}

// Every sequence over all ranks.
inline StepPlan shared_plan(const MemorySource& source, std::int32_t num_ranks,
                            LossWeighting weighting = LossWeighting::kToken) {
  std::vector<std::int32_t> all;
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) all.push_back(rank);
  return placed_plan(source, num_ranks, weighting, std::vector(source.specs().size(), all));
}

// Documents for planned sequences: random tokens, and targets at as many random places as the spec
// says.
inline MemorySource source_of(const std::vector<SequenceSpec>& specs, std::uint64_t seed,
                              std::int64_t vocab) {
  MemorySource source;
  for (const SequenceSpec& spec : specs) {
    const std::int64_t length = spec.tokens.value();
    MemorySource::Document document = MemorySource::random_document(seed, spec.id, length, vocab);
    document.targets.back() =
        document.tokens.front();  // as in a split chunk, the last token may have a target
    const Permutation order(seed, "places of targets", static_cast<std::uint64_t>(length));
    for (std::int64_t i = spec.num_targets; i < length; ++i) {
      document.targets[order(static_cast<std::uint64_t>(i))] = kNoTarget;
    }
    source.add(spec.id, std::move(document));
  }
  return source;
}

}  // namespace weft::testing
