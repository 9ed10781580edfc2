#include "plan/priced_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/bound_terms.h"
#include "plan/rank_kinds.h"

namespace weft {
namespace {

// Groups of this many sequences, the longest, are looked at one by one.
constexpr std::size_t kMostVolumes = 32;
constexpr int kMostSteps = 12;  // of one size, in the search for prices
constexpr int kMostCloserSteps = 3;

// A price of max(v, speed_share * v + memory_price * C_r / C).
struct Prices {
  double speed_share = 0;
  double memory_price = 1;
  bool operator==(const Prices&) const = default;
};

// How closely sequences and degrees are looked at.
struct Closeness {
  double lengths = 1.03;  // ratio of the longest to the shortest that are taken together
  double degrees = 1.01;  // the same of degrees
  int slopes = 8;         // tried for each degree
};
// The slope of attention in a group of D is at least a share less this much of the fading / D.
constexpr double kMostFading = 1.5;
constexpr double kWideShare = 0.2;
constexpr Closeness kCloser{.lengths = 1.1, .degrees = 1.03, .slopes = 4};
constexpr Closeness kCoarse{.lengths = 1.3, .degrees = 1.1, .slopes = 2};

class PricedBound {
 public:
  // Groups of up to `node_ranks` may be inside a node.
  PricedBound(std::span<const SequenceSpec> sequences, const CostModel& cost,
              std::vector<RankKind> kinds, std::int32_t node_ranks)
      : sequences_(sequences), cost_(cost), kinds_(std::move(kinds)), node_ranks_(node_ranks) {
    for (const RankKind& kind : kinds_) {
      num_ranks_ += kind.count;
      all_speed_ += kind.speed * kind.count;
      all_memory_ += kind.memory * kind.count;
      memories_.insert(memories_.end(), static_cast<std::size_t>(kind.count), kind.memory);
    }
    std::sort(memories_.begin(), memories_.end(), std::greater<>());
    std::vector<double> speeds;
    for (const RankKind& kind : kinds_)
      speeds.insert(speeds.end(), static_cast<std::size_t>(kind.count), kind.speed);
    std::sort(speeds.begin(), speeds.end());
    slowest_.resize(speeds.size() + 1);
    std::partial_sum(speeds.begin(), speeds.end(), slowest_.begin() + 1);
    most_ = memories_.front();
    hop_ = hop_of(cost.hop(false));
    node_hop_ = hop_of(cost.hop(true));
    while (num_long_ < sequences_.size() && tokens_of(num_long_) > memories_.back()) ++num_long_;
    for (std::size_t i = num_long_; i < sequences_.size(); ++i) {
      short_tokens_ += tokens_of(i);
      short_attention_ += attention_of(i);
    }
    for (std::size_t i = 0; i < std::min(num_long_, kMostVolumes); ++i)
      volumes_.push_back(tokens_of(i) > most_ ? least_group_volume(memories_, tokens_of(i)) : 0);
    min_degree_.resize(num_long_);
    double held = 0;
    std::int32_t degree = 0;
    for (std::size_t i = num_long_; i-- > 0;) {
      while (held < tokens_of(i)) held += memories_[static_cast<std::size_t>(degree++)];
      min_degree_[i] = degree;
    }
  }

  // The best of many prices, found with a coarse look at each, then with a closer one at those near
  // it: lengths and degrees taken together move the best prices.
  double best() {
    found_ = 0;
    for (const double share : {0.0, 0.35, 0.7}) {
      for (const double price : {0.2, 0.4, 0.6, 0.85, 1.2, 2.0})
        try_prices({share, price}, kCoarse);
    }
    climb(kCoarse, {0.1, 0.05, 0.025}, kMostSteps, false);
    const Prices coarse = best_;
    const double bound = std::max(found_, bound_at(coarse, {}));
    if (memories_.front() == memories_.back()) return bound;  // prices are nearly the speeds
    found_ = bound_at(coarse, kCloser);
    climb(kCloser, {0.1, 0.05}, kMostCloserSteps, true);
    return best_ == coarse ? bound : std::max(bound, bound_at(best_, {}));
  }

 private:
  struct PricedKind {
    double price = 1;
    double memory = 0;
    double count = 1;
    double speed = 1;
    double per_token = 0;  // of linear and fixed costs
  };
  // Groups of as many members.
  struct DegreeRange {
    double least = 2;
    double most = 2;
    double slope = -1;  // share of attention that counts in full; -1: not chosen yet
  };
  struct TokenPrice {
    double price = 0;
    double tokens = 0;
    bool operator>(const TokenPrice& other) const { return price > other.price; }
  };

  bool try_prices(const Prices& prices, const Closeness& closeness) {
    if (prices.speed_share < 0 || prices.speed_share > 1 || prices.memory_price <= 0) return false;
    const double bound = bound_at(prices, closeness);
    if (bound <= found_) return false;
    found_ = bound;
    best_ = prices;
    return true;
  }

  // At most so many moves of each step.
  void climb(const Closeness& closeness, std::initializer_list<double> steps, int most_moves,
             bool is_diagonal) {
    for (const double step : steps) {
      bool is_better = true;
      for (int i = 0; i < most_moves && is_better; ++i) {
        const auto [share, price] = best_;
        is_better = try_prices({share + step, price}, closeness) ||
                    try_prices({share - step, price}, closeness) ||
                    try_prices({share, price * (1 + step)}, closeness) ||
                    try_prices({share, price / (1 + step)}, closeness);
        if (is_better || !is_diagonal) continue;
        is_better = try_prices({share - step, price + step}, closeness) ||
                    try_prices({share + step, price - step}, closeness);
      }
    }
  }

  double hop_of(HopCost hop) const { return hop.ns_per_token + hop.fixed_ns / most_; }
  // In groups of this many members or more.
  double hop_at(double degree) const { return degree <= node_ranks_ ? node_hop_ : hop_; }

  double tokens_of(std::size_t i) const {
    return static_cast<double>(sequences_[i].tokens.value());
  }
  double attention_of(std::size_t i) const {
    return cost_.attention_ns_per_pair * tokens_of(i) * (tokens_of(i) + 1) / 2;
  }

  void set_prices(const Prices& prices, const Closeness& closeness) {
    prices_ = prices;
    priced_.clear();
    all_prices_ = 0;
    fixed_per_token_ = std::numeric_limits<double>::infinity();
    least_per_token_ = std::numeric_limits<double>::infinity();
    for (const RankKind& kind : kinds_) {
      const double price = std::max(
          kind.speed, prices.speed_share * kind.speed + prices.memory_price * kind.memory / most_);
      all_prices_ += price * kind.count;
      const double fixed = price / kind.speed * cost_.fixed_ns / kind.memory;
      fixed_per_token_ = std::min(fixed_per_token_, fixed);
      priced_.push_back({price, kind.memory, kind.count, kind.speed,
                         price / kind.speed * cost_.linear_ns_per_token + fixed});
      least_per_token_ = std::min(least_per_token_, priced_.back().per_token);
    }
    const double mean_speed = all_speed_ / num_ranks_;
    fading_ = hop_ <= 0 ? 0
                        : cost_.linear_ns_per_token * prices.memory_price * all_memory_ /
                              num_ranks_ / most_ / (mean_speed * mean_speed * hop_);
    degrees_.clear();
    for (double degree = 2; degree <= num_ranks_;) {
      const double next = std::max(degree + 1, std::floor(degree * closeness.degrees));
      degrees_.push_back({.least = degree, .most = next - 1, .slope = -1});
      degree = next;
    }
    num_slopes_ = closeness.slopes;
  }

  // The slope that is best for the longest sequence that so few ranks hold, or for one that just
  // fits so many mean ranks.
  double slope_of(DegreeRange& degrees) {
    if (degrees.slope >= 0) return degrees.slope;
    const auto longest = static_cast<std::size_t>(
        std::partition_point(min_degree_.begin(), min_degree_.end(),
                             [&](std::int32_t least) { return least > degrees.least; }) -
        min_degree_.begin());
    // Where a group takes much of the cluster, all exchange may be exposed.
    const bool is_wide = degrees.least >= kWideShare * num_ranks_;
    double tokens = degrees.least * all_memory_ / num_ranks_;
    if (is_wide && longest < num_long_)
      tokens = std::max(0.7 * tokens, std::min(tokens, tokens_of(longest)));
    const double attention = cost_.attention_ns_per_pair * tokens / 2;
    double best = -1;
    for (int i = 0; i <= num_slopes_ + (is_wide ? 1 : 0); ++i) {
      double slope = 1 / degrees.least;
      if (i <= num_slopes_) {
        const double fading = kMostFading * fading_ * i / num_slopes_;
        slope = std::clamp(prices_.speed_share - fading / degrees.least, slope, 1.0);
      }
      double value = slope * attention + token_price(tokens, degrees, slope);
      if (is_wide && longest < volumes_.size() && tokens_of(longest) >= tokens)
        value = std::max(value, giant(longest, degrees, slope) / tokens_of(longest));
      if (value <= best) continue;
      best = value;
      degrees.slope = slope;
    }
    return degrees.slope;
  }

  double bound_at(const Prices& prices, const Closeness& closeness) {
    set_prices(prices, closeness);
    double sum = short_attention_ + (cost_.linear_ns_per_token + fixed_per_token_) * short_tokens_;
    for (std::size_t begin = 0, end = 0; begin < num_long_; begin = end) {
      end = begin + 1;
      while (end < num_long_ && tokens_of(begin) <= tokens_of(end) * closeness.lengths &&
             (tokens_of(begin) > most_) == (tokens_of(end) > most_))
        ++end;
      sum += sum_of(begin, end);
    }
    return sum / all_prices_;
  }

  // Of sequences of about one length: their least priced times.
  double sum_of(std::size_t begin, std::size_t end) {
    const double shortest = tokens_of(end - 1);
    least_.assign(end - begin, std::numeric_limits<double>::infinity());
    if (tokens_of(begin) <= most_) {
      double least_whole = std::numeric_limits<double>::infinity();
      for (const PricedKind& kind : priced_) {
        if (kind.memory >= shortest) least_whole = std::min(least_whole, kind.price / kind.speed);
      }
      for (std::size_t i = begin; i < end; ++i)
        least_[i - begin] =
            least_whole * (attention_of(i) + cost_.linear_ns_per_token * tokens_of(i)) +
            fixed_per_token_ * tokens_of(i);
    }
    const double first = std::max(2, min_degree_[end - 1]);
    auto degrees = std::partition_point(degrees_.begin(), degrees_.end(),
                                        [&](const DegreeRange& one) { return one.most < first; });
    for (; degrees != degrees_.end() && may_improve(begin, end, degrees->least, first); ++degrees) {
      const double slope = slope_of(*degrees);
      const double per_token = token_price(shortest, *degrees, slope);
      for (std::size_t i = begin; i < end; ++i) {
        double own = slope * attention_of(i) + per_token * tokens_of(i);
        if (i < volumes_.size()) own = std::max(own, giant(i, *degrees, slope));
        least_[i - begin] = std::min(least_[i - begin], own);
      }
    }
    return std::accumulate(least_.begin(), least_.end(), 0.0);
  }

  // Whether a group of `degree` or more may be better for one of the sequences.
  bool may_improve(std::size_t begin, std::size_t end, double degree, double first) const {
    double least = std::numeric_limits<double>::infinity();
    double cheapest = std::numeric_limits<double>::infinity();
    for (const PricedKind& kind : priced_) {
      cheapest = std::min(cheapest, kind.price * (1 - 1 / first));
      least = std::min(least, kind.price - prices_.speed_share * kind.speed);
    }
    least = std::max(0.0, std::min(least, cheapest));
    const double fading = std::max(0.0, prices_.speed_share - kMostFading * fading_ / degree);
    for (std::size_t i = begin; i < end; ++i) {
      const double rest = least_per_token_ * tokens_of(i);
      const double exchange = hop_at(degree) * degree * tokens_of(i);
      // With the least slope that fades, and with 1 / degree.
      const double own =
          rest + std::min(fading * attention_of(i) + exchange * least, exchange * cheapest);
      if (own < least_[i - begin]) return true;
    }
    return false;
  }

  // Of exchange, linear and fixed costs, for each token of a sequence of at least `tokens`: the
  // cheapest ranks that hold it, also with a price for each member.
  double token_price(double tokens, const DegreeRange& degrees, double slope) {
    const double member = 0.5 * hop_at(degrees.least) * prices_.memory_price / most_ * tokens *
                          tokens / degrees.least;
    return std::max(cheapest(tokens, degrees, slope, 0), cheapest(tokens, degrees, slope, member));
  }

  double cheapest(double tokens, const DegreeRange& degrees, double slope, double member_price) {
    heap_.clear();
    const double hop = hop_at(degrees.least);
    for (const PricedKind& kind : priced_) {
      const double exchange =
          std::min(kind.price - slope * kind.speed, kind.price * (1 - 1 / degrees.least));
      heap_.push_back({hop * exchange * std::max(degrees.least, tokens / kind.memory) +
                           kind.per_token + member_price / kind.memory,
                       kind.memory * kind.count});
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    double sum = 0;
    double left = tokens;
    while (left > 0 && !heap_.empty()) {
      const TokenPrice least = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      const double taken = std::min(left, least.tokens);
      sum += taken * least.price;
      left -= taken;
    }
    return (sum - member_price * degrees.most) / tokens;
  }

  // With the volume that the sequence's group has at least.
  double giant(std::size_t i, const DegreeRange& degrees, double slope) const {
    const double slow = slowest_[static_cast<std::size_t>(degrees.least)] *
                        std::max(0.0, prices_.speed_share - slope);
    return slope * attention_of(i) + least_per_token_ * tokens_of(i) +
           hop_at(degrees.least) * (1 - 1 / degrees.least) *
               (prices_.memory_price / most_ * volumes_[i] + slow * tokens_of(i));
  }

  std::span<const SequenceSpec> sequences_;
  const CostModel& cost_;
  std::vector<RankKind> kinds_;
  std::vector<double> memories_;  // [ranks], descending
  std::vector<double> slowest_;   // [d]: sum of the d smallest speeds
  double num_ranks_ = 0;
  double all_speed_ = 0;
  double all_memory_ = 0;
  double most_ = 0;      // memory of a rank
  double hop_ = 0;       // ns of a hop for each token of the largest member
  double node_hop_ = 0;  // the same inside a node
  double node_ranks_ = 0;
  std::size_t num_long_ = 0;  // sequences that some rank cannot hold
  double short_tokens_ = 0;   // of the others
  double short_attention_ = 0;
  std::vector<double> volumes_;           // of the longest sequences' groups
  std::vector<std::int32_t> min_degree_;  // [num_long_]
  // Of the search for prices:
  double found_ = 0;
  Prices best_;
  // At the prices looked at:
  Prices prices_;
  std::vector<PricedKind> priced_;  // [kinds]
  double all_prices_ = 0;
  double fixed_per_token_ = 0;
  double least_per_token_ = 0;
  double fading_ = 0;
  std::vector<DegreeRange> degrees_;
  int num_slopes_ = 1;
  std::vector<TokenPrice> heap_;
  std::vector<double> least_;
};

}  // namespace

double least_group_volume(std::span<const double> memories, double tokens) {
  // The best group of a given size and level are neighbours in this order: of those above the level
  // the smallest waste the least, of those below it the largest hold the most.
  std::vector<double> held(memories.size() + 1);
  for (std::size_t r = 0; r < memories.size(); ++r) held[r + 1] = held[r] + memories[r];
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t begin = 0; begin < memories.size(); ++begin) {
    if (held.back() - held[begin] < tokens) break;
    auto end =
        static_cast<std::size_t>(std::lower_bound(held.begin() + static_cast<std::ptrdiff_t>(begin),
                                                  held.end(), held[begin] + tokens) -
                                 held.begin());
    // Members hold min(memory, level); the first `full` ones, the largest, are above the level.
    std::size_t full = 0;
    for (; end <= memories.size(); ++end) {
      const double sum = held[end] - held[begin];
      if (sum * tokens >= best) break;  // members x level >= tokens
      const auto level_of = [&](std::size_t above) {
        return (tokens - (held[end] - held[begin + above])) / static_cast<double>(above);
      };
      full = std::max<std::size_t>(full, 1);
      while (begin + full < end && level_of(full) < memories[begin + full]) ++full;
      const double level = std::min(level_of(full), memories[begin]);
      best = std::min(best, sum * static_cast<double>(end - begin) * level);
    }
  }
  return best;
}

double priced_bound_ns(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity) {
  return PricedBound(sequences, cost, kinds_of(cluster, capacity),
                     node_limits(cluster, capacity).ranks)
      .best();
}

}  // namespace weft
