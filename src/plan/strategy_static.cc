#include <algorithm>
#include <numeric>
#include <set>
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
                  context, num_ranks, capacity,
                  (context.value() + capacity.value() - 1) / capacity.value());
  std::int32_t degree = 1;
  while (num_ranks % degree != 0 || capacity * degree < context) ++degree;
  return degree;
}

// Bins of d * C tokens that also know each member's tokens: zigzag parts are rounded, and a
// sequence shorter than d has members without a token.
class ShardedBins {
 public:
  ShardedBins(std::int32_t degree, Tokens capacity) : degree_(degree), capacity_(capacity) {}

  // Puts the sequence into the fullest bin that holds it on every member.
  void add(std::int32_t sequence_idx, Tokens tokens) {
    const std::vector<std::int64_t> members = member_tokens(tokens);
    for (auto it = rooms_.lower_bound({tokens, 0}); it != rooms_.end(); ++it) {
      if (!fits(it->second, members)) continue;
      const auto [room, bin] = *it;
      rooms_.erase(it);
      put(bin, room, sequence_idx, tokens, members);
      return;
    }
    bins_.emplace_back();
    used_.emplace_back(static_cast<std::size_t>(degree_));
    put(bins_.size() - 1, capacity_ * degree_, sequence_idx, tokens, members);
  }

  const std::vector<std::vector<std::int32_t>>& bins() const { return bins_; }

 private:
  std::vector<std::int64_t> member_tokens(Tokens tokens) const {
    const auto degree = static_cast<std::int32_t>(std::min<std::int64_t>(degree_, tokens.value()));
    std::vector<std::int64_t> members(static_cast<std::size_t>(degree));
    for (std::int32_t i = 0; i < degree; ++i) {
      for (const TokenRange range : zigzag_ranges(tokens, degree, i)) {
        members[static_cast<std::size_t>(i)] += range.size();
      }
    }
    return members;
  }

  bool fits(std::size_t bin, const std::vector<std::int64_t>& members) const {
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (used_[bin][i] + members[i] > capacity_.value()) return false;
    }
    return true;
  }

  void put(std::size_t bin, Tokens room, std::int32_t sequence_idx, Tokens tokens,
           const std::vector<std::int64_t>& members) {
    bins_[bin].push_back(sequence_idx);
    for (std::size_t i = 0; i < members.size(); ++i) used_[bin][i] += members[i];
    rooms_.insert({room - tokens, bin});
  }

  std::int32_t degree_;
  Tokens capacity_;
  std::vector<std::vector<std::int32_t>> bins_;     // sequence_idx
  std::vector<std::vector<std::int64_t>> used_;     // [bins][degree] tokens
  std::set<std::pair<Tokens, std::size_t>> rooms_;  // (free tokens of the whole bin, bin)
};

}  // namespace

void plan_static(const PlanRequest& request, StepPlan& plan) {
  PlanBuilder builder(plan);
  if (plan.sequences.empty()) return;
  const std::int32_t degree = context_degree(request, plan.sequences.front().tokens);
  const std::int32_t num_data_groups = plan.num_ranks / degree;

  std::vector<std::int32_t> arrival(plan.sequences.size());
  std::iota(arrival.begin(), arrival.end(), 0);
  std::sort(arrival.begin(), arrival.end(), [&](std::int32_t a, std::int32_t b) {
    return plan.sequences[static_cast<std::size_t>(a)].id <
           plan.sequences[static_cast<std::size_t>(b)].id;
  });
  ShardedBins bins(degree, request.options.capacity);
  for (const std::int32_t idx : arrival)
    bins.add(idx, plan.sequences[static_cast<std::size_t>(idx)].tokens);

  for (std::size_t b = 0; b < bins.bins().size(); ++b) {
    const std::int64_t first_rank = static_cast<std::int64_t>(b) % num_data_groups * degree;
    builder.open_slot();
    // Canonical order: sequences on the same ring lie together and share its hops.
    std::vector<std::int32_t> bin = bins.bins()[b];
    std::sort(bin.begin(), bin.end());
    for (const std::int32_t idx : bin) {
      const std::int64_t tokens = plan.sequences[static_cast<std::size_t>(idx)].tokens.value();
      std::vector<Rank> ranks;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(degree, tokens); ++i)
        ranks.emplace_back(first_rank + i);
      builder.add_shared(idx, ranks);
    }
  }
}

}  // namespace weft
