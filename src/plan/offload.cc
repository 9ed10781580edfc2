#include "plan/offload.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft {
namespace {

constexpr double kRatioSteps = 4096;

}  // namespace

Tokens most_offloaded(Tokens capacity, std::int32_t num_layers) {
  if (num_layers <= 2) return capacity;
  const Tokens most(capacity.value() / 2 * num_layers + capacity.value() % 2 * num_layers / 2);
  return std::min(most, kMostTokens);
}

double least_offload_ratio(Tokens tokens, Tokens capacity, std::int32_t num_layers) {
  if (tokens <= capacity) return 0;
  if (num_layers <= 2) return 2;
  const double kept = ratio(capacity, tokens) * num_layers;  // layers' worth of activations
  double steps = std::ceil((1 - (kept - 2) / (num_layers - 2)) * kRatioSteps);
  // As validate computes it.
  const auto capacity_tokens = static_cast<double>(capacity.value());
  while (resident_tokens(tokens, steps / kRatioSteps, num_layers) > capacity_tokens &&
         steps <= kRatioSteps)
    ++steps;
  return steps / kRatioSteps;
}

double hidden_offload_ratio(const CostModel& cost, Tokens tokens) {
  const auto length = static_cast<double>(tokens.value());
  const double compute_ns =
      cost.linear_ns_per_token + cost.attention_ns_per_pair * (length + 1) / 2;  // a token's mean
  const double copy_ns = cost.activation_bytes_per_token / cost.offload_bytes_per_second * 1e9;
  return std::min(1.0, std::min(1.0, cost.backward_ratio) * compute_ns / copy_ns);
}

std::int32_t least_degree_with_offload(const CostModel& cost, Tokens tokens, Tokens capacity) {
  const double hidden = hidden_offload_ratio(cost, tokens);
  const auto fits = [&](std::int64_t degree) {
    const Tokens member((tokens.value() - 1) / degree + 1);
    const double needed = least_offload_ratio(member, capacity, cost.num_layers);
    const double bytes = needed * static_cast<double>(member.value()) *
                         cost.activation_bytes_per_token * std::max(0, cost.num_layers - 2);
    return needed <= hidden && (cost.host_bytes_per_rank == 0 || bytes <= cost.host_bytes_per_rank);
  };
  std::int64_t low = 0;  // does not fit
  std::int64_t high = ranks_needed(tokens, capacity);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return static_cast<std::int32_t>(high);
}

void set_offload_ratios(StepPlan& plan) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const Tokens capacity = plan.capacity_of(Rank(static_cast<std::int64_t>(r)));
    for (MicroBatch& micro_batch : plan.ranks[r]) {
      micro_batch.offload_ratio =
          least_offload_ratio(micro_batch.tokens(), capacity, plan.num_layers);
      WEFT_CHECK(micro_batch.offload_ratio <= 1, "{} tokens at a capacity of {}",
                 micro_batch.tokens(), capacity);
    }
  }
}

}  // namespace weft
