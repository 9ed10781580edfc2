#include "plan/node_strip.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace weft {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::vector<RankInterval> intervals_of(std::vector<std::int32_t>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<RankInterval> intervals;
  for (const std::int32_t rank : ranks) {
    if (intervals.empty() || intervals.back().end != rank) intervals.push_back({rank, rank});
    intervals.back().end = rank + 1;
  }
  return intervals;
}

}  // namespace

NodeStrip::NodeStrip(const StripInput& input) {
  for (std::int32_t r = 0; r < input.num_ranks; ++r) {
    if (r % input.ranks_per_node == 0) nodes_.emplace_back();
    nodes_.back().emplace_back(0, input.first_rank + r);
  }
  free_ranks_.emplace(0, static_cast<std::size_t>(input.num_ranks));
  free_at_.assign(nodes_.front().size(), std::vector<std::int64_t>(nodes_.size(), kNever));
  for (std::size_t n = 0; n < nodes_.size(); ++n) index_node(n);
}

void NodeStrip::index_node(std::size_t node) {
  for (std::size_t i = 0; i < nodes_[node].size(); ++i) free_at_[i][node] = nodes_[node][i].first;
}

std::size_t NodeStrip::free_by(const Node& node, std::int64_t limit) {
  std::size_t count = 0;
  while (count < node.size() && node[count].first <= limit) ++count;
  return count;
}

std::int64_t NodeStrip::free_in_node(std::size_t degree) const {
  if (degree > free_at_.size()) return kNever;
  return *std::min_element(free_at_[degree - 1].begin(), free_at_[degree - 1].end());
}

std::int64_t NodeStrip::free_anywhere(std::size_t degree) const {
  auto by = free_ranks_.begin();
  for (std::size_t free = by->second; free < degree; free += by->second) ++by;
  return by->first;
}

bool NodeStrip::choose_node(std::size_t degree, std::int64_t limit) {
  parts_.clear();
  std::tuple<std::int64_t, std::size_t, std::int64_t> least;  // waited, free besides, start
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (free_at_[degree - 1][n] > limit) continue;
    const Node& node = nodes_[n];
    const std::size_t free = free_by(node, limit);
    const std::int64_t start = node[free - 1].first;
    std::int64_t waited = 0;
    for (std::size_t i = free - degree; i < free; ++i) waited += start - node[i].first;
    const std::tuple key(waited, free - degree, start);
    if (!parts_.empty() && key >= least) continue;
    parts_.assign(1, {.node = n, .count = degree});
    least = key;
  }
  return !parts_.empty();
}

// Whole nodes first, those that became free last; then the node with the fewest free ranks that
// holds the rest, or as many of the fullest as it takes.
void NodeStrip::choose_parts(std::size_t degree, std::int64_t limit) {
  struct FreeNode {
    std::size_t node = 0;
    std::size_t free = 0;
    std::int64_t since = 0;  // the last of them
    bool is_whole = false;
  };
  std::vector<FreeNode> free;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (free_at_.front()[n] > limit) continue;
    const std::size_t count = free_by(nodes_[n], limit);
    free.push_back({.node = n,
                    .free = count,
                    .since = nodes_[n][count - 1].first,
                    .is_whole = count == nodes_.front().size()});
  }
  std::stable_sort(free.begin(), free.end(), [](const FreeNode& a, const FreeNode& b) {
    return std::tuple(a.is_whole, a.free, a.since) > std::tuple(b.is_whole, b.free, b.since);
  });
  parts_.clear();
  for (std::size_t i = 0; degree > 0; ++i) {
    if (degree < free[i].free) {
      for (std::size_t j = i + 1; j < free.size() && free[j].free >= degree; ++j)
        if (free[j].free < free[i].free) i = j;
    }
    const std::size_t count = std::min(degree, free[i].free);
    parts_.push_back({.node = free[i].node, .count = count});
    degree -= count;
  }
}

NodeStrip::Choice NodeStrip::choose(const GangTask& task, std::int64_t planned_start) {
  const auto degree = static_cast<std::size_t>(task.degree);
  if (degree <= nodes_.front().size() && choose_node(degree, planned_start))
    return {.limit = planned_start, .duration = task.duration};
  const std::int64_t anywhere = std::max(planned_start, free_anywhere(degree));
  const std::int64_t inside = free_in_node(degree);
  if (inside != kNever && inside + task.duration <= anywhere + task.between) {
    choose_node(degree, inside);
    return {.limit = inside, .duration = task.duration};
  }
  choose_parts(degree, anywhere);
  return {.limit = anywhere, .duration = parts_.size() == 1 ? task.duration : task.between};
}

std::vector<RankLoad> NodeStrip::take_parts(std::int64_t limit) {
  std::vector<RankLoad> taken;
  for (const Part& part : parts_) {
    Node& node = nodes_[part.node];
    const auto end = node.begin() + static_cast<std::ptrdiff_t>(free_by(node, limit));
    const auto begin = end - static_cast<std::ptrdiff_t>(part.count);
    taken.insert(taken.end(), begin, end);
    for (auto load = begin; load != end; ++load) {
      const auto by = free_ranks_.find(load->first);
      if (--by->second == 0) free_ranks_.erase(by);
    }
    node.erase(begin, end);
  }
  return taken;
}

void NodeStrip::put_back(std::span<const std::int32_t> ranks, std::int64_t free_at) {
  std::size_t next = 0;
  for (const Part& part : parts_) {
    Node& node = nodes_[part.node];
    auto place = std::upper_bound(
        node.begin(), node.end(), free_at,
        [](std::int64_t value, const RankLoad& load) { return value < load.first; });
    for (std::size_t i = 0; i < part.count; ++i)
      place = node.insert(place, {free_at, ranks[next++]});
    index_node(part.node);
  }
  free_ranks_[free_at] += ranks.size();
}

StripGroup NodeStrip::place(const GangTask& task, std::int64_t planned_start, std::int32_t group,
                            std::vector<RankGap>& gaps) {
  const Choice choice = choose(task, planned_start);
  const std::vector<RankLoad> taken = take_parts(choice.limit);
  StripGroup placed{.sequence_idx = task.sequence_idx, .start = 0, .ranks = {}, .cut = {}};
  for (const RankLoad& load : taken) placed.start = std::max(placed.start, load.first);
  std::vector<std::int32_t> ranks;
  for (const auto& [free_at, rank] : taken) {
    if (free_at < placed.start) gaps.push_back({placed.start - free_at, rank, group});
    ranks.push_back(rank);
  }
  put_back(ranks, placed.start + choice.duration);
  placed.ranks = intervals_of(ranks);
  return placed;
}

std::vector<RankEnd> NodeStrip::ends() const {
  std::vector<RankEnd> ends;
  for (const Node& node : nodes_) {
    for (const auto& [free_at, rank] : node) ends.push_back({free_at, rank});
  }
  return ends;
}

}  // namespace weft
