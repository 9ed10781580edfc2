#include "plan/lower_bound.h"

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

// Sums in floating point are off by far less than this share; a bound is lowered by it so that it
// stays one.
constexpr double kRoundingShare = 1e-9;

class Bounds {
 public:
  Bounds(std::span<const SequenceSpec> sequences, const CostModel& cost, const ClusterSpec& cluster,
         Tokens capacity)
      : sequences_(sequences), cost_(cost), num_ranks_(cluster.num_ranks), capacity_(capacity) {
    std::vector<double> speed = cluster.speed;
    if (speed.empty()) speed.assign(static_cast<std::size_t>(num_ranks_), 1.0);
    std::sort(speed.begin(), speed.end());
    slowest_.resize(speed.size() + 1);
    fastest_.resize(speed.size() + 1);
    for (std::size_t d = 0; d < speed.size(); ++d) {
      slowest_[d + 1] = slowest_[d] + speed[d];
      fastest_[d + 1] = fastest_[d] + speed[speed.size() - 1 - d];
    }
  }

  LowerBound compute() const {
    LowerBound bound;
    if (sequences_.empty()) return bound;
    const auto smallest = [&](Tokens tokens) { return smallest_degree(tokens, capacity_); };
    bound.work = safe(area_ns(smallest) / fastest_.back());
    bound.longest = safe(best_time_ns(sequences_.front().tokens));
    bound.in_turn = in_turn();
    bound.spread = spread(std::max({bound.work, bound.longest, bound.in_turn}));
    return bound;
  }

 private:
  Nanoseconds safe(double layer_ns) const {
    const auto ns = static_cast<double>(all_layers(cost_, layer_ns).value());
    return Nanoseconds(
        std::max<std::int64_t>(0, static_cast<std::int64_t>(ns * (1 - kRoundingShare)) - 1));
  }

  double compute_ns(Tokens tokens) const {
    return cost_.attention_ns_per_pair * static_cast<double>(causal_work({0, tokens.value()})) +
           cost_.linear_ns_per_token * static_cast<double>(tokens.value());
  }
  double attention_ns(Tokens tokens) const {
    return cost_.attention_ns_per_pair * static_cast<double>(causal_work({0, tokens.value()}));
  }
  double least_exchange_ns(Tokens tokens, std::int32_t degree) const {
    return exchange_ns(cost_, degree, Tokens((tokens.value() + degree - 1) / degree));
  }

  // No group of this degree finishes the sequence earlier (one layer forward).
  double time_ns(Tokens tokens, std::int32_t degree) const {
    const double speed = fastest_[static_cast<std::size_t>(degree)];
    const double attention = attention_ns(tokens);
    const double rest = compute_ns(tokens) - attention + cost_.fixed_ns * degree;
    return std::max((rest + attention) / speed,
                    (rest + attention / degree) / speed + least_exchange_ns(tokens, degree));
  }

  double best_time_ns(Tokens tokens) const {
    double best = std::numeric_limits<double>::infinity();
    for (std::int32_t d = smallest_degree(tokens, capacity_); d <= num_ranks_; ++d) {
      best = std::min(best, time_ns(tokens, d));
    }
    return best;
  }

  // Speed-weighted busy time that no plan avoids when each sequence takes at least
  // degree_of(tokens) ranks. degree_of is called for ascending lengths.
  double area_ns(const std::function<std::int32_t(Tokens)>& degree_of) const {
    double area = 0;
    double exposed = 0;
    std::int64_t total_tokens = 0;
    for (std::size_t i = sequences_.size(); i-- > 0;) {
      const Tokens tokens = sequences_[i].tokens;
      const std::int32_t degree = degree_of(tokens);
      if (degree > num_ranks_) return std::numeric_limits<double>::infinity();
      total_tokens += tokens.value();
      area += compute_ns(tokens);
      exposed += least_exposed_ns(tokens, degree);
    }
    const std::int64_t micro_batches = (total_tokens - 1) / capacity_.value() + 1;
    return area + std::max(0.0, exposed) + cost_.fixed_ns * static_cast<double>(micro_batches);
  }

  // What the sequence adds to the exposed exchange of all ranks, at any degree of `least` or more:
  // the minimum of the convex f(D) = hops * (D - 1) - attention * (1 - 1 / D). Negative when its
  // attention hides exchange of others.
  double least_exposed_ns(Tokens tokens, std::int32_t least) const {
    const double mean_speed = slowest_[static_cast<std::size_t>(least)] / least;
    const double hops =
        mean_speed * static_cast<double>(tokens.value()) *
        (cost_.hop_ns_per_token + cost_.hop_fixed_ns / static_cast<double>(capacity_.value()));
    const double attention = attention_ns(tokens);
    const double bottom = hops > 0 ? std::sqrt(attention / hops) : num_ranks_;
    const double degree =
        std::clamp(bottom, static_cast<double>(least), static_cast<double>(num_ranks_));
    return hops * (degree - 1) - attention * (1 - 1 / degree);
  }

  Nanoseconds in_turn() const {
    double sum = 0;
    const Tokens all = capacity_ * num_ranks_;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      if (i > 0 && sequences_[i - 1].tokens + sequences_[i].tokens <= all) break;
      sum += best_time_ns(sequences_[i].tokens);
    }
    return safe(sum);
  }

  // Whether a makespan of `limit` is impossible, because the work at the degrees that it needs does
  // not fit.
  bool too_short(Nanoseconds limit) const {
    const double layer_ns = static_cast<double>(limit.value()) /
                            (static_cast<double>(cost_.num_layers) * (1 + cost_.backward_ratio));
    const double roomy = layer_ns * (1 + kRoundingShare);
    std::int32_t degree = 1;
    const auto needed = [&](Tokens tokens) {
      degree = std::max(degree, smallest_degree(tokens, capacity_));
      while (degree <= num_ranks_ && time_ns(tokens, degree) > roomy) ++degree;
      return degree;
    };
    return area_ns(needed) > roomy * fastest_.back();
  }

  Nanoseconds spread(Nanoseconds known) const {
    if (!too_short(known)) return Nanoseconds(0);
    std::int64_t low = known.value();  // impossible
    std::int64_t high = std::max<std::int64_t>(1, 2 * low);
    while (too_short(Nanoseconds(high))) {
      low = high;
      high *= 2;
    }
    // A thousandth is close enough: the bound is `low`, which is impossible.
    while (high - low > 1 && high - low > low / 4096) {
      const std::int64_t middle = low + (high - low) / 2;
      (too_short(Nanoseconds(middle)) ? low : high) = middle;
    }
    return Nanoseconds(low);
  }

  std::span<const SequenceSpec> sequences_;
  const CostModel& cost_;
  std::int32_t num_ranks_;
  Tokens capacity_;
  std::vector<double> slowest_;  // [d]: sum of the d smallest speeds
  std::vector<double> fastest_;  // [d]: sum of the d largest speeds
};

}  // namespace

LowerBound lower_bound(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity) {
  return Bounds(sequences, cost, cluster, capacity).compute();
}

}  // namespace weft
