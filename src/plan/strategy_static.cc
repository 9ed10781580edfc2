#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "plan/plan_builder.h"
#include "plan/strategy.h"

namespace weft {
namespace {

std::int32_t context_degree(const PlanRequest& request, Tokens longest) {
  const Tokens context =
      request.options.max_context == Tokens(0) ? longest : request.options.max_context;
  const std::int32_t num_ranks = request.cluster.num_ranks;
  const Tokens capacity = request.options.capacity;
  WEFT_USER_CHECK(longest <= context,
                  "plan: static: a sequence has {} tokens, above the configured context of {}; "
                  "raise max_context",
                  longest, context);
  WEFT_USER_CHECK(context <= capacity * num_ranks,
                  "plan: static: the configured context of {} tokens exceeds {} ranks x capacity "
                  "{}; at least {} "
                  "ranks would fit",
                  context, num_ranks, capacity, ranks_needed(context, capacity));
  std::int32_t degree = 1;
  while (num_ranks % degree != 0 || capacity * degree < context) ++degree;
  return degree;
}

struct Bin {
  std::vector<std::int32_t> shared;  // sequence_idx, on the ring of all d ranks
  std::vector<std::pair<std::int32_t, std::int32_t>> whole;  // (sequence_idx, member)
  std::vector<std::int64_t> used;                            // [d] tokens
};

// Bins of d * C tokens that also know each member's tokens: zigzag parts are rounded, and a
// sequence shorter than d cannot be cut over the ring.
class ShardedBins {
 public:
  ShardedBins(std::int32_t degree, Tokens capacity) : degree_(degree), capacity_(capacity) {}

  // Only the bin opened last takes more from now on.
  void close_all_but_last() {
    if (!rooms_.empty())
      rooms_ = {*std::max_element(rooms_.begin(), rooms_.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      })};
  }

  // Puts the sequence into the fullest bin that holds it: over all members, or, with fewer tokens
  // than members, whole on the member with the fewest tokens. One that is above the capacity even
  // so (a capacity below d) is shared by as many members as it has tokens.
  void add(std::int32_t sequence_idx, Tokens tokens) {
    const std::vector<std::int64_t> members = member_tokens(tokens);
    for (auto it = rooms_.lower_bound({tokens, 0}); it != rooms_.end(); ++it) {
      const auto [room, bin_idx] = *it;
      if (!put(bins_[bin_idx], sequence_idx, tokens, members)) continue;
      rooms_.erase(it);
      rooms_.insert({room - tokens, bin_idx});
      return;
    }
    bins_.emplace_back().used.resize(static_cast<std::size_t>(degree_));
    WEFT_CHECK(put(bins_.back(), sequence_idx, tokens, members),
               "{} tokens do not fit {} ranks x {}", tokens, degree_, capacity_);
    rooms_.insert({capacity_ * degree_ - tokens, bins_.size() - 1});
  }

  const std::vector<Bin>& bins() const { return bins_; }

 private:
  // Tokens of each member on the ring; empty when the sequence stays whole.
  std::vector<std::int64_t> member_tokens(Tokens tokens) const {
    if (tokens < Tokens(degree_) && tokens <= capacity_) return {};
    const auto degree = static_cast<std::int32_t>(std::min<std::int64_t>(degree_, tokens.value()));
    std::vector<std::int64_t> members(static_cast<std::size_t>(degree));
    for (std::int32_t i = 0; i < degree; ++i) {
      for (const TokenRange range : zigzag_ranges(tokens, degree, i))
        members[static_cast<std::size_t>(i)] += range.size();
    }
    return members;
  }

  bool put(Bin& bin, std::int32_t sequence_idx, Tokens tokens,
           const std::vector<std::int64_t>& members) const {
    if (members.empty()) {
      const auto emptiest = std::min_element(bin.used.begin(), bin.used.end());
      if (*emptiest + tokens.value() > capacity_.value()) return false;
      *emptiest += tokens.value();
      bin.whole.emplace_back(sequence_idx, static_cast<std::int32_t>(emptiest - bin.used.begin()));
      return true;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (bin.used[i] + members[i] > capacity_.value()) return false;
    }
    for (std::size_t i = 0; i < members.size(); ++i) bin.used[i] += members[i];
    bin.shared.push_back(sequence_idx);
    return true;
  }

  std::int32_t degree_;
  Tokens capacity_;
  std::vector<Bin> bins_;
  std::set<std::pair<Tokens, std::size_t>> rooms_;  // (free tokens of the whole bin, bin)
};

// Fixed mesh: bins of d * C tokens in the order given, dealt to the data groups in turn.
void plan_mesh(const PlanRequest& request, bool is_sorted, StepPlan& plan) {
  PlanBuilder builder(plan);
  if (plan.sequences.empty()) return;
  const std::int32_t degree = context_degree(request, plan.sequences.front().tokens);
  const std::int32_t num_data_groups = plan.num_ranks / degree;

  std::vector<std::int32_t> arrival(plan.sequences.size());
  std::iota(arrival.begin(), arrival.end(), 0);
  if (!is_sorted) {
    std::sort(arrival.begin(), arrival.end(), [&](std::int32_t a, std::int32_t b) {
      return plan.sequences[static_cast<std::size_t>(a)].id <
             plan.sequences[static_cast<std::size_t>(b)].id;
    });
  }
  ShardedBins bins(degree, request.options.capacity);
  for (const std::int32_t idx : arrival) {
    bins.add(idx, plan.sequences[static_cast<std::size_t>(idx)].tokens);
    if (is_sorted) bins.close_all_but_last();
  }

  for (std::size_t b = 0; b < bins.bins().size(); ++b) {
    const std::int64_t first_rank = static_cast<std::int64_t>(b) % num_data_groups * degree;
    std::vector<Rank> ring;
    for (std::int32_t i = 0; i < degree; ++i) ring.emplace_back(first_rank + i);
    builder.open_slot();
    // Shared sequences lie together, so that they are one ring; canonical order.
    Bin bin = bins.bins()[b];
    std::sort(bin.shared.begin(), bin.shared.end());
    std::sort(bin.whole.begin(), bin.whole.end());
    for (const std::int32_t idx : bin.shared) {
      const std::int64_t tokens = plan.sequences[static_cast<std::size_t>(idx)].tokens.value();
      builder.add_shared(
          idx,
          std::span(ring).first(static_cast<std::size_t>(std::min<std::int64_t>(degree, tokens))));
    }
    for (const auto& [idx, member] : bin.whole)
      builder.add_whole(idx, ring[static_cast<std::size_t>(member)]);
  }
}

}  // namespace

void plan_static(const PlanRequest& request, StepPlan& plan) { plan_mesh(request, false, plan); }

void plan_sorted(const PlanRequest& request, StepPlan& plan) { plan_mesh(request, true, plan); }

}  // namespace weft
