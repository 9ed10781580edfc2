#include "tests/unit/plan/exact_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/error.h"
#include "cost/micro_batch_time.h"

namespace weft::testing {
namespace {

using Ends = std::vector<std::int64_t>;  // ascending: ranks are alike
constexpr std::int64_t kNever = std::int64_t{1} << 62;

class ExactSearch {
 public:
  ExactSearch(std::vector<SequenceSpec> sequences, const CostModel& cost, std::int32_t num_ranks,
              Tokens capacity)
      : sequences_(std::move(sequences)), cost_(cost), num_ranks_(num_ranks), capacity_(capacity) {
    WEFT_CHECK(sequences_.size() <= 7 && num_ranks <= 4, "{} sequences on {} ranks",
               sequences_.size(), num_ranks);
    const std::uint32_t num_sets = 1U << sequences_.size();
    times_.assign(num_sets, std::vector<std::int64_t>(static_cast<std::size_t>(num_ranks) + 1));
    for (std::uint32_t set = 1; set < num_sets; ++set) {
      for (std::int32_t degree = 1; degree <= num_ranks; ++degree)
        times_[set][static_cast<std::size_t>(degree)] = time_of(set, degree);
    }
  }

  std::int64_t run(std::int64_t known) {
    best_ = known;
    visit((1U << sequences_.size()) - 1, Ends(static_cast<std::size_t>(num_ranks_), 0));
    return best_;
  }

 private:
  // A whole pack, or one ring for the set: the formula of docs/cost.md, written again.
  std::int64_t time_of(std::uint32_t set, std::int32_t degree) const {
    std::int64_t slowest = 0;
    for (std::int32_t member = 0; member < degree; ++member) {
      double compute = cost_.fixed_ns;
      double attention = 0;
      double largest = 0;
      std::int64_t held = 0;
      for (std::size_t i = 0; i < sequences_.size(); ++i) {
        if ((set >> i & 1U) == 0) continue;
        const Tokens tokens = sequences_[i].tokens;
        if (tokens.value() < degree) return kNever;
        std::int64_t own = 0;
        std::int64_t pairs = 0;
        for (const TokenRange range : zigzag_ranges(tokens, degree, member)) {
          own += range.size();
          pairs += causal_work(range);
        }
        held += own;
        attention += cost_.attention_ns_per_pair * static_cast<double>(pairs);
        compute += cost_.linear_ns_per_token * static_cast<double>(own);
        largest += static_cast<double>((tokens.value() + degree - 1) / degree);
      }
      if (held > capacity_.value()) return kNever;
      const double d = degree;
      const double hops = (d - 1) * (cost_.hop_fixed_ns + cost_.hop_ns_per_token * largest);
      const double exposed = std::max(0.0, hops - attention * (d - 1) / d);
      const double layer = compute + attention + (degree > 1 ? exposed : 0);
      slowest = std::max(slowest, all_layers(cost_, layer).value());
    }
    return slowest;
  }

  bool is_dominated(std::uint32_t left, const Ends& ends) {
    auto& seen = seen_[left];
    for (const Ends& other : seen) {
      bool is_worse = true;
      for (std::size_t r = 0; r < ends.size(); ++r) is_worse = is_worse && other[r] <= ends[r];
      if (is_worse) return true;
    }
    seen.push_back(ends);
    return false;
  }

  void visit(std::uint32_t left, const Ends& ends) {
    if (ends.back() >= best_) return;
    if (left == 0) {
      best_ = ends.back();
      return;
    }
    if (is_dominated(left, ends)) return;
    for (std::uint32_t set = left; set != 0; set = (set - 1) & left) {
      for (std::uint32_t ranks = 1; ranks < (1U << num_ranks_); ++ranks) {
        const std::int64_t time = times_[set][static_cast<std::size_t>(std::popcount(ranks))];
        if (time == kNever) continue;
        const auto last = static_cast<std::size_t>(std::bit_width(ranks)) - 1;
        const std::int64_t end = ends[last] + time;
        if (end >= best_) continue;
        Ends next = ends;
        for (std::size_t r = 0; r < next.size(); ++r) {
          if ((ranks >> r & 1U) != 0) next[r] = end;
        }
        std::sort(next.begin(), next.end());
        visit(left & ~set, next);
      }
    }
  }

  std::vector<SequenceSpec> sequences_;
  CostModel cost_;
  std::int32_t num_ranks_;
  Tokens capacity_;
  std::int64_t best_ = kNever;
  std::vector<std::vector<std::int64_t>> times_;  // [set of sequences][degree]
  std::map<std::uint32_t, std::vector<Ends>> seen_;
};

}  // namespace

Nanoseconds exact_makespan(std::vector<SequenceSpec> sequences, const CostModel& cost,
                           std::int32_t num_ranks, Tokens capacity, Nanoseconds known) {
  return Nanoseconds(
      ExactSearch(std::move(sequences), cost, num_ranks, capacity).run(known.value()));
}

}  // namespace weft::testing
