#include "plan/small_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "cost/micro_batch_time.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

constexpr std::size_t kMostSequences = 8;
constexpr std::int32_t kMostSmallRanks = 4;
constexpr std::int64_t kNodeBudget = 400'000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

using Times = std::array<std::int64_t, kMostSmallRanks>;

struct SmallNode {
  std::int32_t first = 0;   // of its ranks
  std::uint32_t ranks = 0;  // bit r: rank r
};

class SmallSearch {
 public:
  SmallSearch(const PlanRequest& request, const StepPlan& plan, Nanoseconds limit)
      : sequences_(plan.sequences),
        cost_(request.cost),
        capacity_(plan.capacity),
        num_ranks_(plan.num_ranks),
        speed_(request.cluster.speed_of(Rank(0))),
        limit_(limit.value()),
        bound_(plan.lower_bound.value()) {
    add_nodes(request.cluster);
    const std::size_t num_sets = std::size_t{1} << sequences_.size();
    for (auto& times : time_) times.resize(num_sets);
    for (auto& times : node_time_) times.resize(num_sets);
    for (std::int32_t degree = 1; degree <= num_ranks_; ++degree) {
      const auto d = static_cast<std::size_t>(degree);
      for (std::uint32_t set = 1; set < num_sets; ++set) {
        time_[d][set] = item_time(degree, set, false);
        node_time_[d][set] = has_nodes() ? item_time(degree, set, true) : time_[d][set];
      }
    }
    // Least rank time of the sequences from i on, each without its fixed cost: it may share one.
    const std::int64_t fixed = all_layers(cost_, cost_.fixed_ns / speed_).value();
    least_area_.resize(sequences_.size() + 1);
    for (std::size_t i = sequences_.size(); i-- > 0;) {
      std::int64_t least = kNever;
      for (std::int32_t degree = 1; degree <= num_ranks_; ++degree) {
        const std::int64_t time = node_time_[static_cast<std::size_t>(degree)][std::size_t{1} << i];
        if (time != kNever) least = std::min(least, degree * (time - fixed));
      }
      // Merged rings hide each other's exchange, so only what is computed surely counts.
      least = std::min(least, compute_area(i));
      least_area_[i] = least_area_[i + 1] + least;
    }
  }

  std::optional<std::vector<SmallItem>> run() {
    choose(0, 0, {});
    return best_;
  }

 private:
  // Without prices for places all ranks are one node.
  void add_nodes(const ClusterSpec& cluster) {
    const std::int32_t size = cost_.has_node_hops() ? cluster.ranks_per_node : num_ranks_;
    for (std::int32_t first = 0; first < num_ranks_; first += size) {
      const std::int32_t count = std::min(size, num_ranks_ - first);
      places_.push_back({.first = first, .ranks = ((1U << count) - 1) << first});
    }
  }
  bool has_nodes() const { return places_.size() > 1; }

  std::int64_t time_of(std::uint32_t ranks, std::uint32_t set) const {
    const bool is_in_node = std::any_of(places_.begin(), places_.end(), [&](const SmallNode& node) {
      return (ranks & ~node.ranks) == 0;
    });
    const auto& times = is_in_node ? node_time_ : time_;
    return times[static_cast<std::size_t>(std::popcount(ranks))][set];
  }

  // Whether used ranks are the first ones of each node, and nodes with used ones stand before equal
  // ones without.
  bool is_first_of_its_kind(std::uint32_t used) const {
    for (std::size_t n = 0; n < places_.size(); ++n) {
      const std::uint32_t own = (used & places_[n].ranks) >> places_[n].first;
      if ((own & (own + 1)) != 0) return false;
      const bool is_equal =
          n > 0 && std::popcount(places_[n].ranks) == std::popcount(places_[n - 1].ranks);
      if (is_equal && own != 0 && (used & places_[n - 1].ranks) == 0) return false;
    }
    return true;
  }

  std::int64_t compute_area(std::size_t i) const {
    const auto tokens = sequences_[i].tokens;
    const double ns =
        cost_.attention_ns_per_pair * static_cast<double>(causal_work({0, tokens.value()})) +
        cost_.linear_ns_per_token * static_cast<double>(tokens.value());
    return std::max<std::int64_t>(0, all_layers(cost_, ns / speed_).value() - 1);
  }

  // kNever when the set does not fit, or has a sequence that cannot be cut over so many ranks.
  std::int64_t item_time(std::int32_t degree, std::uint32_t set, bool is_in_node) const {
    std::int64_t longest = 0;
    for (std::int32_t position = 0; position < degree; ++position) {
      std::vector<RingShare> shares;
      Tokens held;
      for (std::size_t i = 0; i < sequences_.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        const Tokens tokens = sequences_[i].tokens;
        if (tokens < Tokens(degree)) return kNever;
        if (shares.empty() || degree == 1)
          shares.push_back({.degree = degree, .largest_member = {}, .is_in_node = is_in_node});
        RingShare& share = shares.back();
        for (const TokenRange range : ZigzagCut(tokens, degree).ranges(position)) {
          share.work += causal_work(range);
          share.tokens += Tokens(range.size());
          held += Tokens(range.size());
        }
        share.largest_member += Tokens((tokens.value() + degree - 1) / degree);
      }
      if (held > capacity_) return kNever;
      longest = std::max(longest, micro_batch_time(cost_, shares, speed_).value());
    }
    return longest;
  }

  bool is_done() const { return limit_ <= bound_ || nodes_ >= kNodeBudget; }

  // Gives sequence i, and then the later ones, a new item or a place in one. Ranks of a node are
  // alike: those of `used` have work, and an item that takes fresh ones takes the next.
  void choose(std::size_t i, std::uint32_t used, Times loads) {
    ++nodes_;
    if (is_done()) return;
    std::int64_t sum = least_area_[i];
    for (std::int32_t r = 0; r < num_ranks_; ++r) {
      const std::int64_t load = loads[static_cast<std::size_t>(r)];
      if (load >= limit_) return;
      sum += load;
    }
    if (sum / num_ranks_ >= limit_) return;
    if (i == sequences_.size()) return order_items(loads);
    const std::uint32_t own = std::uint32_t{1} << i;
    for (std::size_t k = 0; k < items_.size(); ++k) {
      const SmallItem before = items_[k];
      const std::int64_t time = time_of(before.ranks, before.sequences | own);
      if (time == kNever) continue;
      items_[k].sequences |= own;
      choose(i + 1, used,
             with_load(loads, before.ranks, time - time_of(before.ranks, before.sequences)));
      items_[k] = before;
    }
    for (std::uint32_t ranks = 1; ranks < (1U << num_ranks_); ++ranks) {
      if (!is_first_of_its_kind(used | ranks)) continue;
      const std::int64_t time = time_of(ranks, own);
      if (time == kNever) continue;
      items_.push_back({.ranks = ranks, .sequences = own});
      choose(i + 1, used | ranks, with_load(loads, ranks, time));
      items_.pop_back();
    }
  }

  Times with_load(Times loads, std::uint32_t ranks, std::int64_t time) const {
    for (std::int32_t r = 0; r < num_ranks_; ++r) {
      if ((ranks >> r & 1U) != 0) loads[static_cast<std::size_t>(r)] += time;
    }
    return loads;
  }

  // The order with the least makespan, items of one rank last where the order does not matter.
  void order_items(const Times& loads) {
    order_.clear();
    place_next(0, {}, loads);
  }

  void place_next(std::uint32_t placed, const Times& ends, const Times& left) {
    ++nodes_;
    std::int64_t makespan = 0;
    for (std::size_t r = 0; r < ends.size(); ++r) makespan = std::max(makespan, ends[r] + left[r]);
    if (makespan >= limit_ || is_done()) return;
    if (order_.size() == items_.size()) {
      limit_ = makespan;
      best_ = order_;
      return;
    }
    for (std::size_t k = 0; k < items_.size(); ++k) {
      if ((placed >> k & 1U) != 0) continue;
      const SmallItem& item = items_[k];
      const std::int64_t time = time_of(item.ranks, item.sequences);
      std::int64_t start = 0;
      for (std::int32_t r = 0; r < num_ranks_; ++r) {
        if ((item.ranks >> r & 1U) != 0) start = std::max(start, ends[static_cast<std::size_t>(r)]);
      }
      Times next_ends = ends;
      Times next_left = left;
      for (std::int32_t r = 0; r < num_ranks_; ++r) {
        if ((item.ranks >> r & 1U) == 0) continue;
        next_ends[static_cast<std::size_t>(r)] = start + time;
        next_left[static_cast<std::size_t>(r)] -= time;
      }
      order_.push_back(item);
      place_next(placed | 1U << k, next_ends, next_left);
      order_.pop_back();
    }
  }

  std::span<const SequenceSpec> sequences_;
  const CostModel& cost_;
  Tokens capacity_;
  std::int32_t num_ranks_;
  double speed_;
  std::int64_t limit_;  // a better makespan is searched for
  std::int64_t bound_;
  std::int64_t nodes_ = 0;
  std::vector<SmallNode> places_;
  std::array<std::vector<std::int64_t>, kMostSmallRanks + 1> time_;  // [degree][set of sequences]
  std::array<std::vector<std::int64_t>, kMostSmallRanks + 1> node_time_;  // the same inside a node
  std::vector<std::int64_t> least_area_;                                  // [sequences + 1]
  std::vector<SmallItem> items_;
  std::vector<SmallItem> order_;
  std::optional<std::vector<SmallItem>> best_;
};

}  // namespace

bool is_small_step(const PlanRequest& request, const StepPlan& plan) {
  return plan.sequences.size() <= kMostSequences && plan.num_ranks <= kMostSmallRanks &&
         request.cluster.is_uniform();
}

std::optional<std::vector<SmallItem>> search_small(const PlanRequest& request, const StepPlan& plan,
                                                   Nanoseconds limit) {
  return SmallSearch(request, plan, limit).run();
}

void append_items(const std::vector<SmallItem>& items, StepPlan& plan) {
  PlanBuilder builder(plan);
  for (const SmallItem& item : items) {
    std::vector<Rank> ranks;
    for (std::int32_t r = 0; r < plan.num_ranks; ++r) {
      if ((item.ranks >> r & 1U) != 0) ranks.emplace_back(r);
    }
    builder.open_slot();
    for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
      if ((item.sequences >> i & 1U) != 0) builder.add_shared(static_cast<std::int32_t>(i), ranks);
    }
  }
}

}  // namespace weft
