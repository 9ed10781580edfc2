#include "plan/bound_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/micro_batch_time.h"

namespace weft {

BoundTerms::BoundTerms(const CostModel& cost, const ClusterSpec& cluster, Tokens capacity)
    : cost_(cost) {
  std::vector<double> speed;
  std::vector<std::int64_t> held;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const Tokens own = cluster.capacity_of(Rank(r), capacity);
    if (own == Tokens(0)) continue;
    speed.push_back(cluster.speed_of(Rank(r)));
    held.push_back(own.value());
  }
  num_ranks_ = static_cast<std::int32_t>(speed.size());
  if (!cluster.speed.empty()) std::sort(speed.begin(), speed.end());
  if (!cluster.memory.empty()) std::sort(held.begin(), held.end(), std::greater<>());
  is_even_ = held.front() == held.back();
  slowest_.resize(speed.size() + 1);
  fastest_.resize(speed.size() + 1);
  held_.resize(speed.size() + 1);
  for (std::size_t d = 0; d < speed.size(); ++d) {
    slowest_[d + 1] = slowest_[d] + speed[d];
    fastest_[d + 1] = fastest_[d] + speed[speed.size() - 1 - d];
    held_[d + 1] = held_[d] + held[d];
  }
}

double BoundTerms::attention_ns(Tokens tokens) const {
  return cost_.attention_ns_per_pair * static_cast<double>(causal_work({0, tokens.value()}));
}

double BoundTerms::linear_ns(Tokens tokens) const {
  return cost_.linear_ns_per_token * static_cast<double>(tokens.value());
}

std::int32_t BoundTerms::smallest(Tokens tokens) const {
  if (is_even_) return static_cast<std::int32_t>(ranks_needed(tokens, Tokens(held_[1])));
  return static_cast<std::int32_t>(std::lower_bound(held_.begin(), held_.end(), tokens.value()) -
                                   held_.begin());
}

double BoundTerms::exchange(Tokens tokens, std::int32_t degree) const {
  return exchange_ns(cost_, degree, Tokens((tokens.value() + degree - 1) / degree));
}

double BoundTerms::time_ns(Tokens tokens, std::int32_t degree) const {
  const double speed = fastest(degree);
  const double attention = attention_ns(tokens);
  const double rest = linear_ns(tokens) + cost_.fixed_ns * degree;
  return std::max((rest + attention) / speed,
                  (rest + attention / degree) / speed + exchange(tokens, degree));
}

double BoundTerms::best_time_ns(Tokens tokens) const {
  double best = std::numeric_limits<double>::infinity();
  for (std::int32_t d = smallest(tokens); d <= num_ranks_; ++d) {
    best = std::min(best, time_ns(tokens, d));
    // No later degree has shorter hops: these only grow with d.
    const double share = static_cast<double>(tokens.value()) / d;
    if ((d - 1) * (cost_.hop_fixed_ns + cost_.hop_ns_per_token * share) > best) break;
  }
  return best;
}

double BoundTerms::least_exposed_ns(Tokens tokens, std::int32_t least) const {
  const double mean_speed = slowest(least) / least;
  const double hops = mean_speed * static_cast<double>(tokens.value()) *
                      (cost_.hop_ns_per_token +
                       cost_.hop_fixed_ns / static_cast<double>(largest_capacity().value()));
  const double attention = attention_ns(tokens);
  const double bottom = hops > 0 ? std::sqrt(attention / hops) : num_ranks_;
  const double degree =
      std::clamp(bottom, static_cast<double>(least), static_cast<double>(num_ranks_));
  return hops * (degree - 1) - attention * (1 - 1 / degree);
}

}  // namespace weft
