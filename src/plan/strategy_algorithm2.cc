#include <algorithm>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "plan/packing.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"

namespace weft {
namespace {

constexpr std::int64_t kNumBuckets = 16;
// delta: a rank lags when it is behind by more than this share of the mean time of a rank.
constexpr double kSlackShare = 0.01;

struct Item {
  std::vector<std::int32_t> sequences;  // one, or a pack
  std::int32_t degree = 1;
  std::int64_t duration = 0;
};

// Algorithm 1's items, longest first.
std::vector<Item> items_of(const PlanRequest& request, const StepPlan& plan) {
  const Tokens capacity = request.options.capacity;
  std::vector<Item> items;
  std::vector<PackableSequence> whole;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const Tokens tokens = plan.sequences[i].tokens;
    const auto idx = static_cast<std::int32_t>(i);
    if (tokens <= capacity) {
      whole.push_back({idx, tokens});
      continue;
    }
    const std::int32_t degree = smallest_degree(tokens, capacity);
    items.push_back({.sequences = {idx},
                     .degree = degree,
                     .duration = sequence_time(request.cost, tokens, degree, 1.0).value()});
  }
  CostModel without_fixed = request.cost;
  without_fixed.fixed_ns = 0;
  const std::int64_t fixed = sequence_time(request.cost, Tokens(1), 1, 1.0).value() -
                             sequence_time(without_fixed, Tokens(1), 1, 1.0).value();
  for (auto& bin : pack_best_fit(whole, capacity)) {
    Item item{.sequences = std::move(bin), .degree = 1, .duration = fixed};
    for (const std::int32_t idx : item.sequences) {
      const Tokens tokens = plan.sequences[static_cast<std::size_t>(idx)].tokens;
      item.duration += sequence_time(without_fixed, tokens, 1, 1.0).value();
    }
    items.push_back(std::move(item));
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.duration > b.duration; });
  return items;
}

class Algorithm2 {
 public:
  Algorithm2(StepPlan& plan, std::vector<Item> items)
      : builder_(plan), num_ranks_(plan.num_ranks), items_(std::move(items)) {
    for (std::int32_t r = 0; r < num_ranks_; ++r) by_time_.emplace(0, r);
    double total = 0;
    for (const Item& item : items_) total += area_of(item);
    slack_ = static_cast<std::int64_t>(kSlackShare * total / num_ranks_);
    bucket_area_ = total / kNumBuckets;
  }

  void run() {
    std::size_t next = 0;
    while (next < items_.size()) {
      // One bucket: the longest items left, an even share of the work.
      double area = 0;
      std::size_t end = next;
      while (end < items_.size() && (end == next || area < bucket_area_))
        area += area_of(items_[end++]);
      while (next < end) fill_lagging(next, end);
    }
  }

 private:
  static double area_of(const Item& item) {
    return static_cast<double>(item.degree) * static_cast<double>(item.duration);
  }

  // The inner loop: items of the bucket while some rank lags by more than delta behind the largest
  // time. When none lags, as at the start, all ranks are targets of one item.
  void fill_lagging(std::size_t& next, std::size_t end) {
    const std::int64_t longest = by_time_.rbegin()->first;
    do {
      assign(items_[next++]);
    } while (next < end && longest - by_time_.begin()->first > slack_);
  }

  // To the ranks that are furthest behind.
  void assign(const Item& item) {
    std::vector<Rank> ranks;
    std::int64_t start = 0;
    for (std::int32_t i = 0; i < item.degree; ++i) {
      start = std::max(start, by_time_.begin()->first);
      ranks.emplace_back(by_time_.begin()->second);
      by_time_.erase(by_time_.begin());
    }
    for (const Rank rank : ranks) by_time_.emplace(start + item.duration, rank.value());
    std::sort(ranks.begin(), ranks.end());
    builder_.open_slot();
    if (item.degree > 1) return builder_.add_shared(item.sequences.front(), ranks);
    for (const std::int32_t idx : item.sequences) builder_.add_whole(idx, ranks.front());
  }

  PlanBuilder builder_;
  std::int32_t num_ranks_;
  std::vector<Item> items_;
  std::set<std::pair<std::int64_t, std::int32_t>> by_time_;  // (exec_time, rank)
  std::int64_t slack_ = 0;
  double bucket_area_ = 0;
};

}  // namespace

void plan_hdp_algorithm2(const PlanRequest& request, StepPlan& plan) {
  Algorithm2(plan, items_of(request, plan)).run();
}

}  // namespace weft
