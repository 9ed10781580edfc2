#include "train/memory_budget.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

Tokens most_tokens_of(const TrainConfig& config) {
  return std::min(config.data.global_batch_tokens, kMostTokens);
}

MemoryParts predict_capacity(const MemoryShape& shape, Tokens capacity) {
  return predict_peak(shape, largest_micro_batch(shape, capacity));
}

}  // namespace

MemoryBudget memory_budget(const TrainConfig& config, std::int32_t threads_per_rank) {
  const ModelConfig& model = config.model;
  return {.shape = {.layer = layer_sizes(model),
                    .num_layers = model.num_layers,
                    .vocab_size = model.vocab_size,
                    .num_parameters = num_parameters(model),
                    .element_bytes = config.train.dtype == "float64" ? 8 : 4,
                    .recompute = parse_recompute(config.memory.recompute),
                    .num_ranks = static_cast<std::int32_t>(config.train.ranks),
                    .threads_per_rank = threads_per_rank},
          .bytes = config.memory.budget_bytes};
}

MemoryParts predict_largest(const TrainConfig& config, const MemoryBudget& budget) {
  return predict_capacity(budget.shape, std::min(config.plan.capacity, most_tokens_of(config)));
}

Tokens settle_capacity(const TrainConfig& config, const MemoryBudget& budget, Tokens longest) {
  const Tokens asked = config.plan.capacity;
  if (budget.bytes == Bytes(0)) return asked > Tokens(0) ? asked : kUnbudgetedCapacity;
  const Tokens most = most_tokens_of(config);
  if (asked > Tokens(0)) {
    const MemoryParts parts = predict_capacity(budget.shape, std::min(asked, most));
    WEFT_USER_CHECK(!budget.exceeded_by(parts),
                    "memory.budget_bytes is {}, but a micro-batch of plan.capacity {} tokens takes "
                    "up to {} ({}). What would fit: {}",
                    format_bytes(budget.bytes), asked, format_bytes(parts.total()),
                    describe_parts(parts), what_would_fit(config, budget, longest));
    return asked;
  }
  const auto largest = largest_capacity(budget.shape, budget.bytes, most);
  if (largest) return *largest;
  const MemoryParts parts = predict_capacity(budget.shape, Tokens(1));
  throw_user_error(
      "memory.budget_bytes is {}, but a micro-batch of one token takes {} ({}). What would fit: {}",
      format_bytes(budget.bytes), format_bytes(parts.total()), describe_parts(parts),
      what_would_fit(config, budget, longest));
}

std::string what_would_fit(const TrainConfig& config, const MemoryBudget& budget, Tokens longest) {
  std::vector<std::string> choices;
  const Tokens most = most_tokens_of(config);
  for (std::size_t mode = 0; mode < kRecomputeNames.size(); ++mode) {
    MemoryShape shape = budget.shape;
    shape.recompute = static_cast<Recompute>(mode);
    if (shape.recompute < budget.shape.recompute) continue;
    auto capacity = largest_capacity(shape, budget.bytes, most);
    if (capacity && shape.num_ranks == 1 && longest > *capacity) {
      shape.num_ranks = 2;  // the ring that will then be needed takes memory too
      capacity = largest_capacity(shape, budget.bytes, most);
    }
    if (!capacity) continue;
    const std::int64_t ranks = ranks_needed(longest, *capacity);
    choices.push_back(fmt::format(
        "plan.capacity up to {} with memory.recompute = \"{}\"{}", *capacity, kRecomputeNames[mode],
        ranks > config.train.ranks
            ? fmt::format(", and {} ranks for the longest sequence of {} tokens", ranks, longest)
            : ""));
  }
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, "; "));
  MemoryShape leanest = budget.shape;
  leanest.recompute = Recompute::kFull;
  return fmt::format(
      "no capacity; memory.budget_bytes of at least {} with memory.recompute = \"full\", or a "
      "smaller model",
      predict_capacity(leanest, Tokens(1)).total());
}

MemoryParts check_budget(const MemoryBudget& budget, const PlanSlice& slice) {
  const MemoryParts parts = predict_peak(budget.shape, slice);
  if (!budget.exceeded_by(parts)) return parts;
  const auto sizes = micro_batch_sizes(slice);
  const auto over = std::find_if(sizes.begin(), sizes.end(), [&](const MicroBatchSize& size) {
    return budget.exceeded_by(predict_peak(budget.shape, size));
  });
  WEFT_CHECK(over != sizes.end(), "a rank without micro-batches exceeds its budget");
  throw_user_error(
      "memory: micro-batch {} of rank {} in the plan of step {} has {} tokens and takes up to {} "
      "({}), more than memory.budget_bytes = {}; plan with a smaller capacity, recompute more "
      "(memory.recompute), or raise the budget",
      over - sizes.begin(), slice.rank, slice.step, over->tokens, format_bytes(parts.total()),
      describe_parts(parts), format_bytes(budget.bytes));
}

}  // namespace weft
