#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"

namespace weft {
namespace {

// A round takes nothing that would run for longer than this over its tallest sequence.
constexpr double kRoundSlack = 1.05;
constexpr int kMostTried = 8;  // groups looked at for one sequence

struct Ring {
  std::int32_t first_rank = 0;
  std::int32_t degree = 1;
  std::int64_t work = 0;    // the strategy's own measure: sum of causal pairs / degree
  std::int64_t tokens = 0;  // of the fullest member
  std::vector<std::int32_t> sequences;
};

// The least power of two that holds the sequence, or all ranks when that is more than there are, or
// a rank for each of its tokens when it has fewer.
std::int32_t power_degree(Tokens tokens, Tokens capacity, std::int32_t num_ranks) {
  std::int32_t degree = 1;
  while (degree < num_ranks && capacity * degree < tokens) degree = std::min(2 * degree, num_ranks);
  return static_cast<std::int32_t>(std::min<std::int64_t>(degree, tokens.value()));
}

class PowerOfTwoRounds {
 public:
  PowerOfTwoRounds(const PlanRequest& request, StepPlan& plan)
      : plan_(plan), capacity_(request.options.capacity), builder_(plan) {
    for (std::size_t i = 0; i < plan.sequences.size(); ++i)
      left_.push_back(static_cast<std::int32_t>(i));
  }

  void run() {
    while (!left_.empty()) run_round();
  }

 private:
  std::int64_t tokens_of(std::int32_t idx) const {
    return plan_.sequences[static_cast<std::size_t>(idx)].tokens.value();
  }
  static std::int64_t work_of(std::int64_t tokens, std::int32_t degree) {
    return causal_work({0, tokens}) / degree;
  }

  // One micro-batch for every rank: the longest sequence left at its least degree, then longest
  // first whatever fits beside it.
  void run_round() {
    rings_.clear();
    by_work_.clear();
    next_rank_ = 0;
    limit_ = 0;
    std::vector<std::int32_t> later;
    for (const std::int32_t idx : left_) {
      if (!place(idx)) later.push_back(idx);
    }
    WEFT_CHECK(later.size() < left_.size(), "a round of {} sequences took none", left_.size());
    widen_rings();
    for (const Ring& ring : rings_) append(ring);
    left_ = std::move(later);
  }

  bool place(std::int32_t idx) {
    const std::int64_t tokens = tokens_of(idx);
    const std::int32_t degree = power_degree(Tokens(tokens), capacity_, plan_.num_ranks);
    const std::int64_t work = work_of(tokens, degree);
    const std::int64_t share = (tokens + degree - 1) / degree;
    if (limit_ == 0) limit_ = static_cast<std::int64_t>(kRoundSlack * static_cast<double>(work));
    if (work > limit_) return false;
    if (next_rank_ + degree <= plan_.num_ranks) {
      rings_.push_back({.first_rank = next_rank_,
                        .degree = degree,
                        .work = work,
                        .tokens = share,
                        .sequences = {idx}});
      by_work_[degree].insert({work, rings_.size() - 1});
      next_rank_ += degree;
      return true;
    }
    // The group of its degree with the least work that has room.
    auto& candidates = by_work_[degree];
    int tried = 0;
    for (auto it = candidates.begin(); it != candidates.end() && tried < kMostTried;
         ++it, ++tried) {
      Ring& ring = rings_[it->second];
      if (ring.work + work > limit_) return false;
      if (ring.tokens + share > capacity_.value()) continue;
      const std::size_t ring_idx = it->second;
      candidates.erase(it);
      ring.work += work;
      ring.tokens += share;
      ring.sequences.push_back(idx);
      candidates.insert({ring.work, ring_idx});
      return true;
    }
    return false;
  }

  // Ranks that would stay empty double the group with the most work.
  void widen_rings() {
    while (next_rank_ < plan_.num_ranks) {
      Ring* most = nullptr;
      for (Ring& ring : rings_) {
        const bool fits = ring.degree <= plan_.num_ranks - next_rank_;
        std::int64_t shortest = tokens_of(ring.sequences.back());
        for (const std::int32_t idx : ring.sequences) shortest = std::min(shortest, tokens_of(idx));
        if (!fits || shortest < 2 * ring.degree) continue;
        if (most == nullptr || ring.work > most->work) most = &ring;
      }
      if (most == nullptr) return;
      // It moves to the free end; its old ranks are free for nothing else in this round.
      const std::int32_t degree = most->degree;
      extra_[static_cast<std::size_t>(most - rings_.data())].emplace_back(next_rank_, degree);
      next_rank_ += degree;
      most->degree *= 2;
      most->work /= 2;
    }
  }

  void append(const Ring& ring) {
    const auto ring_idx = static_cast<std::size_t>(&ring - rings_.data());
    std::vector<Rank> ranks;
    std::int32_t own = ring.degree;
    const auto extra = extra_.find(ring_idx);
    if (extra != extra_.end()) {
      for (const auto& [first, count] : extra->second) own -= count;
    }
    for (std::int32_t i = 0; i < own; ++i) ranks.emplace_back(ring.first_rank + i);
    if (extra != extra_.end()) {
      for (const auto& [first, count] : extra->second) {
        for (std::int32_t i = 0; i < count; ++i) ranks.emplace_back(first + i);
      }
      extra_.erase(extra);
    }
    builder_.open_slot();
    for (const std::int32_t idx : ring.sequences) builder_.add_shared(idx, ranks);
  }

  StepPlan& plan_;
  Tokens capacity_;
  PlanBuilder builder_;
  std::vector<std::int32_t> left_;                                                  // longest first
  std::vector<Ring> rings_;                                                         // of this round
  std::map<std::int32_t, std::set<std::pair<std::int64_t, std::size_t>>> by_work_;  // by degree
  std::map<std::size_t, std::vector<std::pair<std::int32_t, std::int32_t>>> extra_;  // by ring
  std::int32_t next_rank_ = 0;
  std::int64_t limit_ = 0;
};

}  // namespace

void plan_pow2(const PlanRequest& request, StepPlan& plan) {
  PowerOfTwoRounds(request, plan).run();
}

}  // namespace weft
