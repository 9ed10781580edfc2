#include "plan/lower_bound.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "cost/micro_batch_time.h"
#include "plan/bound_terms.h"
#include "plan/crowded_time.h"
#include "plan/pipeline_time.h"
#include "plan/priced_bound.h"

namespace weft {
namespace {

// Sums in floating point are off by far less than this share; a bound is lowered by it so that it
// stays one.
constexpr double kRoundingShare = 1e-9;
constexpr std::size_t kMostInTurn = 16;

class Bounds {
 public:
  Bounds(std::span<const SequenceSpec> sequences, const CostModel& cost, const ClusterSpec& cluster,
         Tokens capacity)
      : sequences_(sequences),
        cost_(cost),
        cluster_(cluster),
        capacity_(capacity),
        terms_(cost, cluster, capacity),
        num_stages_(cluster.pipeline_stages) {}

  LowerBound compute() {
    LowerBound bound;
    if (sequences_.empty()) return bound;
    sum_up();
    if (num_stages_ > 1) least_slot_ns_ = terms_.best_time_ns(sequences_.back().tokens);
    bound.work = work();
    bound.longest = safe(terms_.best_time_ns(sequences_.front().tokens));
    bound.in_turn = in_turn();
    // Both are about ranks that run one slot at a time, which stages of a pipeline do not.
    const bool is_one_by_one = num_stages_ == 1;
    if (is_one_by_one)
      bound.crowded = crowded(std::max({bound.work, bound.longest, bound.in_turn}));
    bound.spread = spread(std::max({bound.work, bound.longest, bound.in_turn, bound.crowded}));
    if (!terms_.are_even()) bound.memory = memory();
    if (is_one_by_one && !terms_.are_alike())
      bound.priced = safe(priced_bound_ns(sequences_, cost_, cluster_, capacity_));
    return bound;
  }

 private:
  Nanoseconds safe(double layer_ns) const {
    const auto ns = static_cast<double>(all_layers(cost_, layer_ns).value());
    return Nanoseconds(
        std::max<std::int64_t>(0, static_cast<std::int64_t>(ns * (1 - kRoundingShare)) - 1));
  }

  // Of one layer forward.
  double in_layer(Nanoseconds time) const {
    return static_cast<double>(time.value()) /
           (static_cast<double>(cost_.num_layers) * (1 + cost_.backward_ratio));
  }

  // Time that a rank takes for slots of `layer_ns` together, none of them shorter than `least_ns`:
  // in a pipeline the first stage has its share of the layers for all of them, and the last stage
  // waits for the first slot to arrive and for the last one to go back, which of V chunks a device
  // is a V-th of the other stages' layers.
  double in_stages(double layer_ns, double least_ns) const {
    if (num_stages_ == 1) return layer_ns;
    const double all = cost_.num_layers;
    const double first = layers_of_stage(cost_.num_layers, num_stages_, 0);
    const double last = layers_of_stage(cost_.num_layers, num_stages_, num_stages_ - 1);
    const double way = (all - last) / cluster_.virtual_stages;
    return std::max(layer_ns * first, layer_ns * last + least_ns * way) / all;
  }

  // Speed-weighted busy time that no plan avoids: area_ whatever the degrees, exposed_ when each
  // sequence takes at least the ranks that hold it.
  void sum_up() {
    std::int64_t total_tokens = 0;
    ExposedTerms previous_exposed;
    // At degree 1 nothing is exposed; a shorter sequence hides less.
    const Tokens whole = terms_.largest_capacity();
    const ExposedTerms of_whole = terms_.least_exposed_ns(whole, 1);
    const bool is_whole_zero = of_whole.all >= 0 && of_whole.leaving >= 0;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const Tokens tokens = sequences_[i].tokens;
      total_tokens += tokens.value();
      area_ += terms_.attention_ns(tokens) + terms_.linear_ns(tokens);
      if (is_whole_zero && tokens <= whole) continue;
      if (i == 0 || tokens != sequences_[i - 1].tokens)
        previous_exposed = terms_.least_exposed_ns(tokens, terms_.smallest(tokens));
      exposed_ += previous_exposed;
    }
    micro_batches_ = (total_tokens - 1) / terms_.largest_capacity().value() + 1;
    area_ += cost_.fixed_ns * static_cast<double>(micro_batches_);
  }

  // On k ranks, each of which runs a micro-batch; more than `micro_batches_` of them add to the
  // fixed costs.
  Nanoseconds work() const {
    const double area = area_ + exposed_.least();
    double least = area / terms_.all_speed();
    if (micro_batches_ < terms_.num_ranks()) {
      least = area / terms_.fastest(static_cast<std::int32_t>(micro_batches_));
      for (auto k = static_cast<std::int32_t>(micro_batches_) + 1; k <= terms_.num_ranks(); ++k) {
        const auto more = static_cast<double>(k - micro_batches_);
        least = std::min(least, (area + more * cost_.fixed_ns) / terms_.fastest(k));
      }
    }
    return safe(in_stages(least, least_slot_ns_));
  }

  // 0 when the longest sequences end within `known`.
  Nanoseconds crowded(Nanoseconds known) const {
    std::array<CrowdJob, kMostCrowdJobs> jobs;
    const std::size_t count = std::min(jobs.size(), sequences_.size());
    const std::int64_t all = terms_.all_capacity().value();
    std::int64_t held = 0;
    for (std::size_t i = 0; i < count; ++i) {
      jobs[i].tokens = sequences_[i].tokens.value();
      held += jobs[i].tokens;
    }
    // Side by side: the last rank of each may be nearly empty.
    if (held + terms_.largest_capacity().value() * static_cast<std::int64_t>(count) <= all)
      return Nanoseconds(0);
    for (std::size_t i = 0; i < count; ++i) jobs[i].ns = terms_.best_time_ns(sequences_[i].tokens);
    // Without a common memory of ranks, tokens are counted.
    const bool is_even = cluster_.memory.empty();
    const Crowd crowd{.num_ranks = is_even ? terms_.num_ranks() : all,
                      .capacity = is_even ? terms_.largest_capacity().value() : 1,
                      .enough = in_layer(known)};
    return safe(crowded_time(std::span(jobs).first(count), crowd));
  }

  Nanoseconds in_turn() const {
    const Tokens all = terms_.all_capacity();
    std::vector<double> best;  // best_time_ns of the longest ones
    const auto best_of = [&](std::size_t i) {
      while (best.size() <= i) best.push_back(terms_.best_time_ns(sequences_[best.size()].tokens));
      return best[i];
    };
    // No two of these fit side by side.
    double sum = 0;
    double shortest = 0;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      if (i > 0 && sequences_[i - 1].tokens + sequences_[i].tokens <= all) break;
      sum += best_of(i);
      shortest = best_of(i);
    }
    sum = in_stages(sum, shortest);
    // The m longest do not fit k times the cluster: some rank runs k + 1 of them.
    Tokens held;
    std::size_t m = 0;
    for (std::size_t k = 1; k <= kMostInTurn; ++k) {
      while (m < sequences_.size() && held <= all * static_cast<std::int64_t>(k))
        held += sequences_[m++].tokens;
      if (held <= all * static_cast<std::int64_t>(k)) break;
      if (m > kMostInTurn * kMostInTurn) break;
      double least = 0;
      for (std::size_t i = m - k - 1; i < m; ++i) least += best_of(i);
      sum = std::max(sum, in_stages(least, best_of(m - 1)));
    }
    return safe(sum);
  }

  // Whether a makespan of `limit` is impossible, because the work at the degrees that it needs does
  // not fit. Degrees can only be raised for `candidates`.
  bool too_short(Nanoseconds limit, std::span<const Tokens> candidates) const {
    const double roomy = in_layer(limit) * (1 + kRoundingShare);
    ExposedTerms exposed = exposed_;
    std::int32_t degree = 1;
    for (const Tokens tokens : candidates) {  // ascending: the least degree does not fall
      const std::int32_t smallest = terms_.smallest(tokens);
      degree = std::max(degree, smallest);
      while (degree <= terms_.num_ranks() && terms_.time_ns(tokens, degree) > roomy) ++degree;
      if (degree > terms_.num_ranks()) return true;
      if (degree > smallest) {
        exposed +=
            terms_.least_exposed_ns(tokens, degree) - terms_.least_exposed_ns(tokens, smallest);
      }
    }
    const double area = area_ + exposed.least();
    const double speed = terms_.all_speed();
    return in_stages(area, least_slot_ns_ * speed) > roomy * speed;
  }

  Nanoseconds spread(Nanoseconds known) const {
    const double known_ns = in_layer(known);
    std::vector<Tokens> candidates;
    const Tokens whole = terms_.largest_capacity();
    for (std::size_t i = sequences_.size(); i-- > 0;) {
      const Tokens tokens = sequences_[i].tokens;
      // Whole ones take longer the longer they are: only when the longest is too slow do all count.
      if (tokens <= whole && terms_.time_ns(whole, 1) <= known_ns) {
        while (i > 0 && sequences_[i - 1].tokens <= whole) --i;
        continue;
      }
      if (terms_.time_ns(tokens, terms_.smallest(tokens)) > known_ns) candidates.push_back(tokens);
    }
    if (candidates.empty() || !too_short(known, candidates)) return Nanoseconds(0);
    std::int64_t low = known.value();  // impossible
    std::int64_t high = std::max<std::int64_t>(1, 2 * low);
    while (too_short(Nanoseconds(high), candidates)) {
      low = high;
      high *= 2;
    }
    // A thousandth is close enough: the bound is `low`, which is impossible.
    while (high - low > 1 && high - low > low / 4096) {
      const std::int64_t middle = low + (high - low) / 2;
      (too_short(Nanoseconds(middle), candidates) ? low : high) = middle;
    }
    return Nanoseconds(low);
  }

  // Least of alpha * (speed-weighted time) + beta * (tokens * time of the slot) over all groups of
  // the sequence; fixed costs left out.
  double least_weighed(Tokens tokens, double alpha, double beta) const {
    const double attention = terms_.attention_ns(tokens);
    const double linear = terms_.linear_ns(tokens);
    const auto held = static_cast<double>(tokens.value());
    double best = std::numeric_limits<double>::infinity();
    if (tokens <= terms_.largest_capacity()) {
      best = (attention + linear) * (alpha + beta * held / terms_.fastest(1));
    }
    const auto most_held = static_cast<double>(terms_.largest_capacity().value());
    std::int32_t end = 0;
    // Degrees [d, end) at once: the exchange of the least, the attention share of the largest.
    for (std::int32_t d = std::max(2, terms_.smallest(tokens)); d <= terms_.num_ranks(); d = end) {
      end = std::min(d + std::max(1, d / 8), terms_.num_ranks() + 1);
      const HopCost hop = terms_.hop(tokens, d);
      const double hops = (d - 1) * (hop.ns_per_token + hop.fixed_ns / most_held) * held / d;
      const double slot_hops = (d - 1) * (hop.fixed_ns + hop.ns_per_token * held / d);
      const double shown = linear + attention / (end - 1);
      const double low = terms_.slowest(d);
      // Where all ranks are needed the two are one mean, summed in two orders: rounding must not
      // leave no speed between them.
      const double high = std::max(low, terms_.fastest(end - 1));
      const auto at = [&](double speed) {
        return alpha * (shown + speed * hops) +
               beta * held * std::max((linear + attention) / speed, shown / speed + slot_hops);
      };
      const double slope = alpha * hops;
      // Without hops there are no kinks between the two.
      const auto kink = [&](double value, double of) { return of > 0 ? value / of : low; };
      const std::array<double, 5> speeds{low, high, kink(attention + linear - shown, slot_hops),
                                         std::sqrt(kink(beta * held * (linear + attention), slope)),
                                         std::sqrt(kink(beta * held * shown, slope))};
      for (const double speed : speeds) {
        if (speed >= low && speed <= high) best = std::min(best, at(speed));
      }
    }
    return best;
  }

  Nanoseconds memory() const {
    constexpr std::array<double, 6> kShares{0.15, 0.3, 0.45, 0.6, 0.75, 0.9};
    double best = 0;
    const auto held = static_cast<double>(terms_.all_capacity().value());
    std::int64_t total_tokens = 0;
    for (const SequenceSpec& sequence : sequences_) total_tokens += sequence.tokens.value();
    const double fixed =
        cost_.fixed_ns *
        static_cast<double>((total_tokens - 1) / terms_.largest_capacity().value() + 1);
    for (const double alpha : kShares) {
      const double beta = (1 - alpha) * terms_.all_speed() / held;
      double sum = alpha * fixed;
      double previous = 0;
      for (std::size_t i = 0; i < sequences_.size(); ++i) {
        if (i == 0 || sequences_[i].tokens != sequences_[i - 1].tokens)
          previous = least_weighed(sequences_[i].tokens, alpha, beta);
        sum += previous;
      }
      best = std::max(best, sum / terms_.all_speed());
    }
    return safe(in_stages(best, least_slot_ns_));
  }

  std::span<const SequenceSpec> sequences_;
  const CostModel& cost_;
  const ClusterSpec& cluster_;
  Tokens capacity_;
  BoundTerms terms_;
  double area_ = 0;
  ExposedTerms exposed_;
  std::int64_t micro_batches_ = 0;  // least number of them
  std::int32_t num_stages_ = 1;
  double least_slot_ns_ = 0;  // of any slot; only with pipelines
};

}  // namespace

LowerBound lower_bound(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity) {
  return Bounds(sequences, cost, cluster, capacity).compute();
}

}  // namespace weft
