#include "plan/gang_schedule.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"
#include "cost/micro_batch_time.h"
#include "plan/sequence_time.h"

namespace weft {
namespace {

// Whole sequences not yet placed, longest first; finds the longest one of at most some size.
class WholeSequences {
 public:
  explicit WholeSequences(std::vector<std::int32_t> sequences)
      : sequences_(std::move(sequences)), next_(sequences_.size() + 1) {
    std::iota(next_.begin(), next_.end(), 0);
  }

  // First position at or after `position` that is not yet placed; size() when there is none.
  std::size_t next_from(std::size_t position) {
    std::size_t root = position;
    while (next_[root] != root) root = next_[root];
    while (next_[position] != root) position = std::exchange(next_[position], root);
    return root;
  }
  void remove(std::size_t position) { next_[position] = position + 1; }
  std::size_t size() const { return sequences_.size(); }
  std::int32_t operator[](std::size_t position) const { return sequences_[position]; }
  // First position whose sequence satisfies `small_enough`, which holds from some position on.
  template <class Predicate>
  std::size_t first_where(Predicate small_enough) const {
    return static_cast<std::size_t>(std::partition_point(sequences_.begin(), sequences_.end(),
                                                         [&](std::int32_t sequence_idx) {
                                                           return !small_enough(sequence_idx);
                                                         }) -
                                    sequences_.begin());
  }

 private:
  std::vector<std::int32_t> sequences_;
  std::vector<std::size_t> next_;  // union-find towards the next position not yet placed
};

std::int64_t at_speed(std::int64_t ns, double speed) {
  return speed == 1.0 ? ns : static_cast<std::int64_t>(static_cast<double>(ns) / speed) + 1;
}

}  // namespace

struct GangScheduler::Gap {
  std::int64_t length = 0;  // ns
  std::int32_t rank = 0;
  std::int32_t before_group = 0;
};

struct GangScheduler::State {
  std::vector<RankLoad> loads;  // by the end of the rank's last group, ascending
  std::vector<Gap> gaps;
  WholeSequences whole;
  GangSchedule result;
};

GangScheduler::GangScheduler(std::span<const SequenceSpec> sequences, const CostModel& cost,
                             const ClusterSpec& cluster, Tokens capacity)
    : sequences_(sequences),
      costs_(cost, cluster),
      cluster_(cluster),
      capacity_(capacity),
      whole_ns_(sequences.size()),
      fixed_ns_(all_layers(cost, cost.fixed_ns).value()) {
  CostModel without_fixed = cost;
  without_fixed.fixed_ns = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Tokens tokens = sequences[i].tokens;
    if (tokens <= capacity) whole_ns_[i] = sequence_time(without_fixed, tokens, 1, 1.0).value();
  }
}

std::int64_t GangScheduler::whole_ns(std::int32_t sequence_idx, Rank rank) const {
  return at_speed(whole_ns_[static_cast<std::size_t>(sequence_idx)], cluster_.speed_of(rank));
}

std::int64_t GangScheduler::fixed_ns(Rank rank) const {
  return at_speed(fixed_ns_, cluster_.speed_of(rank));
}

GangSchedule GangScheduler::run(std::span<const GroupRequest> requests) const {
  std::vector<char> shared(sequences_.size());
  for (const GroupRequest& request : requests)
    shared[static_cast<std::size_t>(request.sequence_idx)] = 1;
  std::vector<std::int32_t> whole;
  for (std::size_t i = 0; i < shared.size(); ++i) {
    if (shared[i] == 0) whole.push_back(static_cast<std::int32_t>(i));
  }
  State state{.loads = {}, .gaps = {}, .whole = WholeSequences(std::move(whole)), .result = {}};
  // Descending ranks: a group takes the last of several equal entries, so the first group starts at
  // rank 0.
  for (std::int32_t rank = cluster_.num_ranks; rank-- > 0;) state.loads.emplace_back(0, rank);
  for (std::size_t i = 0; i < requests.size(); ++i) place_group(i, requests[i], state);
  std::stable_sort(state.gaps.begin(), state.gaps.end(),
                   [](const Gap& left, const Gap& right) { return left.length > right.length; });
  for (const Gap& gap : state.gaps) fill_gap(gap, state);
  level_ends(state);
  return std::move(state.result);
}

std::int64_t GangScheduler::end_of(const GroupRequest& request, const RankChoice& place,
                                   const State& state, const CostModel& cost) const {
  double speed = std::numeric_limits<double>::infinity();
  for (const std::size_t i : place.chosen)
    speed = std::min(speed, cluster_.speed_of(Rank(state.loads[i].second)));
  const Tokens tokens = sequences_[static_cast<std::size_t>(request.sequence_idx)].tokens;
  return place.start + sequence_time(cost, tokens, request.degree, speed).value();
}

void GangScheduler::place_group(std::size_t request_idx, const GroupRequest& request,
                                State& state) const {
  RankChoice place = choose_ranks(state.loads, request.degree);
  std::int64_t end =
      end_of(request, place, state,
             costs_.has_places() ? costs_.between() : costs_.at_best(request.degree));
  if (costs_.has_places() && request.degree <= costs_.node_ranks()) {
    if (auto node = choose_node(state.loads, request.degree, cluster_)) {
      const std::int64_t node_end = end_of(request, *node, state, costs_.inside());
      if (node_end <= end) {
        place = *std::move(node);
        end = node_end;
      }
    }
  }
  PlacedGroup group{.sequence_idx = request.sequence_idx, .ranks = {}};
  std::vector<RankLoad>& loads = state.loads;
  auto next = place.chosen.begin();
  std::size_t from = *next, to = *next;
  for (; from < loads.size() && (next != place.chosen.end() || loads[from].first <= end); ++from) {
    const auto [free_at, rank] = loads[from];
    if (next == place.chosen.end() || *next != from) {
      loads[to++] = loads[from];
      continue;
    }
    ++next;
    group.ranks.emplace_back(rank);
    if (free_at < place.start)
      state.gaps.push_back({place.start - free_at, rank, static_cast<std::int32_t>(request_idx)});
  }
  // Ring order by rank: neighbours in the ring are near each other.
  std::sort(group.ranks.begin(), group.ranks.end());
  for (auto rank = group.ranks.rbegin(); rank != group.ranks.rend(); ++rank)
    loads[to++] = {end, rank->value()};
  state.result.groups.push_back(std::move(group));
}

void GangScheduler::fill_gap(const Gap& gap, State& state) const {
  const Rank rank(gap.rank);
  std::int64_t left = gap.length;
  PlacedPack pack{
      .rank = rank, .before_group = gap.before_group, .room = Tokens(0), .sequences = {}};
  const auto close = [&] {
    if (!pack.sequences.empty()) state.result.packs.push_back(pack);
    pack.sequences.clear();
  };
  const auto longest_within = [&](Tokens room, std::int64_t ns) {
    return state.whole.next_from(state.whole.first_where([&](std::int32_t sequence_idx) {
      return sequences_[static_cast<std::size_t>(sequence_idx)].tokens <= room &&
             whole_ns(sequence_idx, rank) <= ns;
    }));
  };
  while (true) {
    std::size_t position =
        pack.sequences.empty() ? state.whole.size() : longest_within(pack.room, left);
    if (position == state.whole.size()) {
      close();
      pack.room = capacity_;
      left -= fixed_ns(rank);
      if (left < 0) return;
      position = longest_within(pack.room, left);
      if (position == state.whole.size()) return;
    }
    const std::int32_t sequence_idx = state.whole[position];
    state.whole.remove(position);
    pack.sequences.push_back(sequence_idx);
    pack.room -= sequences_[static_cast<std::size_t>(sequence_idx)].tokens;
    left -= whole_ns(sequence_idx, rank);
  }
}

void GangScheduler::level_ends(State& state) const {
  GangSchedule& result = state.result;
  result.ends.resize(static_cast<std::size_t>(cluster_.num_ranks));
  for (const auto& [end, rank] : state.loads)
    result.ends[static_cast<std::size_t>(rank)] = Nanoseconds(end);

  // A rank's key is when it would finish a sequence of mean length: slow ranks come later.
  std::int64_t mean_ns = 0;
  std::int64_t num_left = 0;
  for (std::size_t p = state.whole.next_from(0); p < state.whole.size();
       p = state.whole.next_from(p + 1)) {
    mean_ns += whole_ns_[static_cast<std::size_t>(state.whole[p])];
    ++num_left;
  }
  if (num_left > 0) mean_ns /= num_left;
  const auto key = [&](std::int64_t end, std::int32_t rank) {
    return std::pair(end + at_speed(mean_ns, cluster_.speed_of(Rank(rank))), rank);
  };
  std::priority_queue<std::pair<std::int64_t, std::int32_t>,
                      std::vector<std::pair<std::int64_t, std::int32_t>>, std::greater<>>
      first_free;
  for (const auto& [end, rank] : state.loads) first_free.push(key(end, rank));

  std::vector<std::vector<std::size_t>> open(result.ends.size());  // packs of each rank
  for (std::size_t p = state.whole.next_from(0); p < state.whole.size();
       p = state.whole.next_from(p + 1)) {
    const std::int32_t sequence_idx = state.whole[p];
    const Tokens tokens = sequences_[static_cast<std::size_t>(sequence_idx)].tokens;
    const std::int32_t rank_idx = first_free.top().second;
    first_free.pop();
    const Rank rank(rank_idx);
    Nanoseconds& end = result.ends[static_cast<std::size_t>(rank_idx)];
    PlacedPack* fullest = nullptr;
    for (const std::size_t pack_idx : open[static_cast<std::size_t>(rank_idx)]) {
      PlacedPack& pack = result.packs[pack_idx];
      if (pack.room >= tokens && (fullest == nullptr || pack.room < fullest->room)) fullest = &pack;
    }
    if (fullest == nullptr) {
      open[static_cast<std::size_t>(rank_idx)].push_back(result.packs.size());
      result.packs.push_back(
          {.rank = rank, .before_group = kAfterAllGroups, .room = capacity_, .sequences = {}});
      fullest = &result.packs.back();
      end += Nanoseconds(fixed_ns(rank));
    }
    fullest->sequences.push_back(sequence_idx);
    fullest->room -= tokens;
    end += Nanoseconds(whole_ns(sequence_idx, rank));
    first_free.push(key(end.value(), rank_idx));
  }
  for (const Nanoseconds end : result.ends) result.makespan = std::max(result.makespan, end);
}

}  // namespace weft
