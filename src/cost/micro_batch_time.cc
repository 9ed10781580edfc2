#include "cost/micro_batch_time.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

double exchange_ns(const CostModel& cost, std::int32_t degree, Tokens largest_member,
                   bool is_in_node) {
  if (degree <= 1) return 0;
  const HopCost hop = cost.hop(is_in_node);
  const double ns = hop.fixed_ns + hop.ns_per_token * static_cast<double>(largest_member.value());
  return static_cast<double>(degree - 1) * ns;
}

double attention_ns(const CostModel& cost, const RingShare& share) {
  const double pairs = cost.attention_ns_per_pair * static_cast<double>(share.work);
  if (share.degree <= 1) return pairs;
  const double step = cost.ring_step_fixed_ns +
                      cost.ring_step_ns_per_token * static_cast<double>(share.tokens.value());
  return pairs + static_cast<double>(share.degree - 1) * step;
}

double exposed_exchange_ns(const CostModel& cost, const RingShare& share, double speed) {
  if (share.degree <= 1) return 0;
  const double attention = attention_ns(cost, share) / speed;
  const double hidden =
      attention * static_cast<double>(share.degree - 1) / static_cast<double>(share.degree);
  const double exchange = exchange_ns(cost, share.degree, share.largest_member, share.is_in_node);
  return std::max(0.0, exchange - hidden);
}

namespace {

Nanoseconds round_up(const CostModel& cost, double ns) {
  WEFT_USER_CHECK(ns < 4e18,
                  "cost: a time of {} ns does not fit; the coefficients of '{}' are too large", ns,
                  cost.name);
  const auto whole = static_cast<std::int64_t>(ns);
  return Nanoseconds(static_cast<double>(whole) < ns ? whole + 1 : whole);
}

}  // namespace

Nanoseconds all_layers(const CostModel& cost, double layer_forward_ns) {
  return round_up(
      cost, static_cast<double>(cost.num_layers) * (1 + cost.backward_ratio) * layer_forward_ns);
}

double offload_copy_ns(const CostModel& cost, Tokens tokens, double offload_ratio) {
  if (cost.offload_bytes_per_second <= 0) return 0;
  const double bytes =
      offload_ratio * static_cast<double>(tokens.value()) * cost.activation_bytes_per_token;
  return bytes / cost.offload_bytes_per_second * 1e9;
}

Nanoseconds offloaded_time(const CostModel& cost, double layer_forward_ns, double copy_ns) {
  const double backward_ns = cost.backward_ratio * layer_forward_ns;
  if (copy_ns <= std::min(layer_forward_ns, backward_ns)) return all_layers(cost, layer_forward_ns);
  const double copied = std::max(0, cost.num_layers - 2);
  const double longer =
      std::max(0.0, copy_ns - layer_forward_ns) + std::max(0.0, copy_ns - backward_ns);
  return round_up(cost, static_cast<double>(cost.num_layers) * (layer_forward_ns + backward_ns) +
                            copied * longer);
}

Nanoseconds forward_time(const CostModel& cost, double layer_forward_ns, std::int32_t num_layers) {
  return round_up(cost, static_cast<double>(num_layers) * layer_forward_ns);
}

Nanoseconds backward_time(const CostModel& cost, double layer_forward_ns, std::int32_t num_layers) {
  return round_up(cost, static_cast<double>(num_layers) * cost.backward_ratio * layer_forward_ns);
}

double layer_forward_time_ns(const CostModel& cost, std::span<const RingShare> shares,
                             double speed) {
  double compute = cost.fixed_ns;
  double exposed = 0;
  for (const RingShare& share : shares) {
    compute += attention_ns(cost, share) +
               cost.linear_ns_per_token * static_cast<double>(share.tokens.value());
    exposed += exposed_exchange_ns(cost, share, speed);
  }
  return compute / speed + exposed;
}

Nanoseconds micro_batch_time(const CostModel& cost, std::span<const RingShare> shares,
                             double speed) {
  return all_layers(cost, layer_forward_time_ns(cost, shares, speed));
}

}  // namespace weft
