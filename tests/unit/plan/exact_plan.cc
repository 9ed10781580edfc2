#include "tests/unit/plan/exact_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "base/error.h"
#include "cost/micro_batch_time.h"

namespace weft::testing {
namespace {

// Ascending in every node, and nodes of one size in order: those are alike.
using Ends = std::vector<std::int64_t>;
constexpr std::int64_t kNever = std::int64_t{1} << 62;

class ExactSearch {
 public:
  ExactSearch(std::vector<SequenceSpec> sequences, const CostModel& cost, std::int32_t num_ranks,
              Tokens capacity, std::int32_t ranks_per_node)
      : sequences_(std::move(sequences)),
        cost_(cost),
        num_ranks_(num_ranks),
        capacity_(capacity),
        has_nodes_(ranks_per_node > 0),
        node_size_(has_nodes_ ? ranks_per_node : num_ranks) {
    WEFT_CHECK(sequences_.size() <= 7 && num_ranks <= 4, "{} sequences on {} ranks",
               sequences_.size(), num_ranks);
    const std::uint32_t num_sets = 1U << sequences_.size();
    times_.assign(num_sets, std::vector<std::int64_t>(static_cast<std::size_t>(num_ranks) + 1));
    node_times_ = times_;
    for (std::uint32_t set = 1; set < num_sets; ++set) {
      for (std::int32_t degree = 1; degree <= num_ranks; ++degree) {
        times_[set][static_cast<std::size_t>(degree)] = time_of(set, degree, false);
        node_times_[set][static_cast<std::size_t>(degree)] = time_of(set, degree, has_nodes_);
      }
    }
  }

  std::int64_t run(std::int64_t known) {
    best_ = known;
    visit((1U << sequences_.size()) - 1, Ends(static_cast<std::size_t>(num_ranks_), 0));
    return best_;
  }

 private:
  // A whole pack, or one ring for the set: the formula of docs/cost.md, written again.
  std::int64_t time_of(std::uint32_t set, std::int32_t degree, bool is_in_node) const {
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
      const double fixed =
          is_in_node && cost_.node_hop_fixed_ns ? *cost_.node_hop_fixed_ns : cost_.hop_fixed_ns;
      const double per_token = is_in_node && cost_.node_hop_ns_per_token
                                   ? *cost_.node_hop_ns_per_token
                                   : cost_.hop_ns_per_token;
      const double hops = (d - 1) * (fixed + per_token * largest);
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

  bool is_in_node(std::uint32_t ranks) const {
    const auto size = static_cast<std::uint32_t>(node_size_);
    const auto first = static_cast<std::uint32_t>(std::countr_zero(ranks));
    const auto last = static_cast<std::uint32_t>(std::bit_width(ranks)) - 1;
    return first / size == last / size;
  }

  void order(Ends& ends) const {
    std::vector<Ends> nodes;
    for (std::size_t r = 0; r < ends.size(); r += static_cast<std::size_t>(node_size_)) {
      const std::size_t end = std::min(ends.size(), r + static_cast<std::size_t>(node_size_));
      nodes.emplace_back(ends.begin() + static_cast<std::ptrdiff_t>(r),
                         ends.begin() + static_cast<std::ptrdiff_t>(end));
      std::sort(nodes.back().begin(), nodes.back().end());
    }
    // A last node with fewer ranks stays the last.
    const bool is_last_smaller = nodes.back().size() < nodes.front().size();
    std::sort(nodes.begin(), nodes.end() - (is_last_smaller ? 1 : 0));
    ends.clear();
    for (const Ends& node : nodes) ends.insert(ends.end(), node.begin(), node.end());
  }

  void visit(std::uint32_t left, const Ends& ends) {
    const std::int64_t latest = *std::max_element(ends.begin(), ends.end());
    if (latest >= best_) return;
    if (left == 0) {
      best_ = latest;
      return;
    }
    if (is_dominated(left, ends)) return;
    for (std::uint32_t set = left; set != 0; set = (set - 1) & left) {
      for (std::uint32_t ranks = 1; ranks < (1U << num_ranks_); ++ranks) {
        const auto& times = is_in_node(ranks) ? node_times_ : times_;
        const std::int64_t time = times[set][static_cast<std::size_t>(std::popcount(ranks))];
        if (time == kNever) continue;
        std::int64_t start = 0;
        for (std::size_t r = 0; r < ends.size(); ++r) {
          if ((ranks >> r & 1U) != 0) start = std::max(start, ends[r]);
        }
        const std::int64_t end = start + time;
        if (end >= best_) continue;
        Ends next = ends;
        for (std::size_t r = 0; r < next.size(); ++r) {
          if ((ranks >> r & 1U) != 0) next[r] = end;
        }
        order(next);
        visit(left & ~set, next);
      }
    }
  }

  std::vector<SequenceSpec> sequences_;
  CostModel cost_;
  std::int32_t num_ranks_;
  Tokens capacity_;
  bool has_nodes_;
  std::int32_t node_size_;
  std::int64_t best_ = kNever;
  std::vector<std::vector<std::int64_t>> times_;       // [set of sequences][degree]
  std::vector<std::vector<std::int64_t>> node_times_;  // the same inside a node
  std::map<std::uint32_t, std::vector<Ends>> seen_;
};

}  // namespace

Nanoseconds exact_makespan(std::vector<SequenceSpec> sequences, const CostModel& cost,
                           std::int32_t num_ranks, Tokens capacity, Nanoseconds known,
                           std::int32_t ranks_per_node) {
  return Nanoseconds(ExactSearch(std::move(sequences), cost, num_ranks, capacity, ranks_per_node)
                         .run(known.value()));
}

}  // namespace weft::testing
