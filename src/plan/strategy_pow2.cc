#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "plan/plan_builder.h"
#include "plan/sequence_time.h"
#include "plan/strategy.h"

namespace weft {
namespace {

// No rank of a round works longer than one would that is full of tokens of the round's longest
// sequence, and this over it.
constexpr double kRoundSlack = 1.05;

struct Ring {
  std::int32_t degree = 1;
  std::vector<std::int32_t> sequences;
};

// The rings of one degree in the order in which they were made, each with its work and tokens;
// finds one with room without looking at all.
class RingRoom {
 public:
  struct Load {
    std::int64_t work = 0;    // the strategy's own measure: sum of causal pairs / degree
    std::int64_t tokens = 0;  // of the fullest member
  };
  struct Found {
    std::size_t ring_idx = 0;
    std::int64_t work = 0;
  };

  void add(std::size_t ring_idx, Load load) {
    if (rings_.size() == leaves_) grow();
    rings_.push_back(ring_idx);
    set(rings_.size() - 1, load);
  }

  // The first one with at most so much work and tokens; puts `more` into it.
  std::optional<Found> put_into_first(Load most, Load more) {
    if (rings_.empty()) return std::nullopt;
    const std::optional<std::size_t> at = first(1, most);
    if (!at) return std::nullopt;
    return put(*at, more);
  }

  // Work of the one with the least among those with at most so many tokens.
  std::optional<std::int64_t> least_work(std::int64_t most_tokens) const {
    const std::size_t at = rings_.empty() ? 0 : least(1, most_tokens, 0);
    if (at == 0) return std::nullopt;
    return nodes_[at].work;
  }

 private:
  Found put(std::size_t position, Load more) {
    Load load = nodes_[leaves_ + position];
    load.work += more.work;
    load.tokens += more.tokens;
    set(position, load);
    return {.ring_idx = rings_[position], .work = load.work};
  }

  void set(std::size_t position, Load load) {
    std::size_t at = leaves_ + position;
    nodes_[at] = load;
    for (at /= 2; at > 0; at /= 2) {
      nodes_[at] = {.work = std::min(nodes_[2 * at].work, nodes_[2 * at + 1].work),
                    .tokens = std::min(nodes_[2 * at].tokens, nodes_[2 * at + 1].tokens)};
    }
  }

  void grow() {
    const std::vector<Load> old(nodes_.begin() + static_cast<std::ptrdiff_t>(leaves_),
                                nodes_.begin() + static_cast<std::ptrdiff_t>(2 * leaves_));
    leaves_ = std::max<std::size_t>(1, 2 * leaves_);
    nodes_.assign(2 * leaves_, kNone);
    for (std::size_t i = 0; i < old.size(); ++i) set(i, old[i]);
  }

  std::optional<std::size_t> first(std::size_t at, Load most) const {
    if (nodes_[at].work > most.work || nodes_[at].tokens > most.tokens) return std::nullopt;
    if (at >= leaves_) return at - leaves_;
    const std::optional<std::size_t> left = first(2 * at, most);
    return left ? left : first(2 * at + 1, most);
  }

  // A leaf, or `best` (0: none yet) where none below `at` has less work.
  std::size_t least(std::size_t at, std::int64_t most_tokens, std::size_t best) const {
    if (nodes_[at].tokens > most_tokens) return best;
    if (best != 0 && nodes_[at].work >= nodes_[best].work) return best;
    if (at >= leaves_) return at;
    return least(2 * at + 1, most_tokens, least(2 * at, most_tokens, best));
  }

  static constexpr Load kNone{.work = std::numeric_limits<std::int64_t>::max(),
                              .tokens = std::numeric_limits<std::int64_t>::max()};
  std::vector<std::size_t> rings_;  // ring_idx by position
  std::size_t leaves_ = 0;
  std::vector<Load> nodes_;  // a tree of least values, leaves from leaves_ on
};

// Places the sequences of one step in rounds, in each of which every rank has one micro-batch.
class PowerOfTwoRounds {
 public:
  PowerOfTwoRounds(const PlanRequest& request, StepPlan& plan)
      : plan_(plan), capacity_(request.options.capacity), builder_(plan) {
    for (std::size_t i = 0; i < plan.sequences.size(); ++i)
      left_.push_back(static_cast<std::int32_t>(i));
    for (std::int32_t degree = 1; degree < plan.num_ranks; degree *= 2) degrees_.push_back(degree);
    degrees_.push_back(plan.num_ranks);
  }

  void run() {
    while (!left_.empty()) run_round();
  }

 private:
  // Where a sequence may go: into a ring of this degree, or a new one.
  struct Share {
    std::int32_t degree = 1;
    RingRoom::Load load;
  };

  std::int64_t tokens_of(std::int32_t idx) const {
    return plan_.sequences[static_cast<std::size_t>(idx)].tokens.value();
  }

  Share share_of(std::int64_t tokens, std::int32_t degree) const {
    return {.degree = degree,
            .load = {.work = causal_work({0, tokens}) / degree,
                     .tokens = (tokens + degree - 1) / degree}};
  }

  // By the index of the degree: the least that holds the sequence, or a rank for each of its tokens
  // when it has fewer.
  Share least_share(std::int64_t tokens, std::size_t& degree_idx) const {
    degree_idx = 0;
    while (capacity_ * degrees_[degree_idx] < Tokens(tokens)) ++degree_idx;
    return share_of(
        tokens, static_cast<std::int32_t>(std::min<std::int64_t>(degrees_[degree_idx], tokens)));
  }

  void run_round() {
    rings_.clear();
    room_.clear();
    num_free_ = plan_.num_ranks;
    most_work_ = 0;
    const std::int64_t longest = tokens_of(left_.front());
    constexpr double kMostWork = 4e18;  // a sum of two stays below 2^63; capacities go to 2^40
    limit_ = static_cast<std::int64_t>(
        std::min(kMostWork, kRoundSlack * static_cast<double>(longest + 1) *
                                static_cast<double>(capacity_.value()) / 2));
    std::size_t degree_idx = 0;
    open(left_.front(), least_share(longest, degree_idx));
    std::vector<std::int32_t> later;
    for (std::size_t i = 1; i < left_.size(); ++i) {
      if (!place(left_[i])) later.push_back(left_[i]);
    }
    widen_rings();
    append_rings();
    left_ = std::move(later);
  }

  void open(std::int32_t idx, const Share& share) {
    room_[share.degree].add(rings_.size(), share.load);
    rings_.push_back({.degree = share.degree, .sequences = {idx}});
    num_free_ -= share.degree;
    most_work_ = std::max(most_work_, share.load.work);
  }

  // Where the busiest rank of the round ends up with the least work: of like places the one of the
  // least degree, a ring that is there before a new one.
  bool place(std::int32_t idx) {
    const std::int64_t tokens = tokens_of(idx);
    std::size_t degree_idx = 0;
    Share share = least_share(tokens, degree_idx);
    std::optional<Share> best;
    std::int64_t best_work = limit_ + 1;
    bool is_best_new = false;
    for (;;) {
      if (join(idx, share, most_work_)) return true;
      const bool has_ranks = share.degree <= num_free_;
      if (has_ranks && share.load.work <= most_work_) {
        open(idx, share);
        return true;
      }
      const auto consider = [&](std::int64_t work, bool is_new) {
        if (work >= best_work) return;
        best = share;
        best_work = work;
        is_best_new = is_new;
      };
      if (const auto least = room_[share.degree].least_work(capacity_.value() - share.load.tokens))
        consider(*least + share.load.work, false);
      if (has_ranks) consider(share.load.work, true);
      if (++degree_idx == degrees_.size() || degrees_[degree_idx] > tokens) break;
      share = share_of(tokens, degrees_[degree_idx]);
    }
    if (!best) return false;
    if (is_best_new) {
      open(idx, *best);
    } else {
      WEFT_CHECK(join(idx, *best, best_work), "a ring of {} has no room", best->degree);
    }
    return true;
  }

  // Into the first ring of the share's degree that then has at most so much work.
  bool join(std::int32_t idx, const Share& share, std::int64_t most_work) {
    const auto found = room_[share.degree].put_into_first(
        {.work = most_work - share.load.work, .tokens = capacity_.value() - share.load.tokens},
        share.load);
    if (!found) return false;
    rings_[found->ring_idx].sequences.push_back(idx);
    most_work_ = std::max(most_work_, found->work);
    return true;
  }

  // Ranks that would stay empty double the smallest rings.
  void widen_rings() {
    std::set<std::pair<std::int32_t, std::size_t>> by_degree;
    for (std::size_t i = 0; i < rings_.size(); ++i) by_degree.insert({rings_[i].degree, i});
    while (num_free_ > 0 && !by_degree.empty()) {
      const std::size_t ring_idx = by_degree.begin()->second;
      by_degree.erase(by_degree.begin());
      Ring& ring = rings_[ring_idx];
      const std::int32_t wider = std::min(2 * ring.degree, plan_.num_ranks);
      // The last to join is the shortest.
      if (wider - ring.degree > num_free_ || tokens_of(ring.sequences.back()) < wider) continue;
      num_free_ -= wider - ring.degree;
      ring.degree = wider;
      by_degree.insert({wider, ring_idx});
    }
  }

  // The widest first, so that rings of powers of two begin at multiples of their degrees.
  void append_rings() {
    std::stable_sort(rings_.begin(), rings_.end(),
                     [](const Ring& a, const Ring& b) { return a.degree > b.degree; });
    std::int64_t next_rank = 0;
    for (const Ring& ring : rings_) {
      std::vector<Rank> ranks;
      for (std::int32_t i = 0; i < ring.degree; ++i) ranks.emplace_back(next_rank++);
      builder_.open_slot();
      for (const std::int32_t idx : ring.sequences) builder_.add_shared(idx, ranks);
    }
  }

  StepPlan& plan_;
  Tokens capacity_;
  PlanBuilder builder_;
  std::vector<std::int32_t> degrees_;  // powers of two below the ranks, and all ranks
  std::vector<std::int32_t> left_;     // longest first
  // Of this round.
  std::vector<Ring> rings_;
  std::map<std::int32_t, RingRoom> room_;  // by degree
  std::int32_t num_free_ = 0;
  std::int64_t most_work_ = 0;  // of a rank
  std::int64_t limit_ = 0;
};

}  // namespace

void plan_pow2(const PlanRequest& request, StepPlan& plan) {
  PowerOfTwoRounds(request, plan).run();
}

}  // namespace weft
