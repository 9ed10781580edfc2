#include "plan/bound_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/micro_batch_time.h"

namespace weft {

NodeLimits node_limits(const ClusterSpec& cluster, Tokens capacity) {
  NodeLimits limits;
  for (std::int32_t first = 0; first < cluster.num_ranks; first += cluster.ranks_per_node) {
    const std::int32_t end = std::min(cluster.num_ranks - first, cluster.ranks_per_node) + first;
    NodeLimits node;
    for (std::int32_t r = first; r < end; ++r) {
      const Tokens own = cluster.capacity_of(Rank(r), capacity);
      if (own > Tokens(0)) ++node.ranks;
      node.tokens += own;
    }
    limits.ranks = std::max(limits.ranks, node.ranks);
    limits.tokens = std::max(limits.tokens, node.tokens);
    if (cluster.memory.empty()) break;  // the first node is the fullest
  }
  return limits;
}

ExposedTerms& ExposedTerms::operator+=(const ExposedTerms& other) {
  all += other.all;
  leaving += other.leaving;
  return *this;
}

ExposedTerms ExposedTerms::operator-(const ExposedTerms& other) const {
  return {.all = all - other.all, .leaving = leaving - other.leaving};
}

double ExposedTerms::least() const { return std::max({0.0, all, leaving}); }

BoundTerms::BoundTerms(const CostModel& cost, const ClusterSpec& cluster, Tokens capacity)
    : cost_(cost) {
  if (cost.has_node_hops()) nodes_ = node_limits(cluster, capacity);
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
  return exchange_ns(cost_, degree, Tokens((tokens.value() + degree - 1) / degree),
                     nodes_.hold(degree, tokens));
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
    const HopCost one = hop(tokens, d);
    if ((d - 1) * (one.fixed_ns + one.ns_per_token * share) > best) break;
  }
  return best;
}

double BoundTerms::least_exposed_ns(Tokens tokens, HopCost hop, std::int32_t least,
                                    std::int32_t most) const {
  const double mean_speed = slowest(least) / least;
  const double hops =
      mean_speed * static_cast<double>(tokens.value()) *
      (hop.ns_per_token + hop.fixed_ns / static_cast<double>(largest_capacity().value()));
  const double attention = attention_ns(tokens);
  const double bottom = hops > 0 ? std::sqrt(attention / hops) : most;
  const double degree = std::clamp(bottom, static_cast<double>(least), static_cast<double>(most));
  return hops * (degree - 1) - attention * (1 - 1 / degree);
}

ExposedTerms BoundTerms::least_exposed_ns(Tokens tokens, std::int32_t least) const {
  const double leaving = least_exposed_ns(tokens, cost_.hop(false), least, num_ranks_);
  if (!nodes_.hold(least, tokens)) return {.all = leaving, .leaving = leaving};
  const double inside = least_exposed_ns(tokens, cost_.hop(true), least, nodes_.ranks);
  // Inside its node it adds nothing to the rings that leave theirs.
  return {.all = std::min(inside, leaving), .leaving = std::min(0.0, leaving)};
}

}  // namespace weft
