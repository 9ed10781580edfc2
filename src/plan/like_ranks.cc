#include "plan/like_ranks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {
namespace {

constexpr double kLikeSpeeds = 1.01;  // the fastest over the slowest
constexpr double kLeastShare = 0.5;   // of all ranks

// What the most ranks hold; of as many, the most.
Tokens usual_capacity(const ClusterSpec& cluster, Tokens capacity) {
  std::map<Tokens, std::int32_t> counts;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r)
    ++counts[cluster.capacity_of(Rank(r), capacity)];
  return std::max_element(counts.rbegin(), counts.rend(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// The slowest speed of those between which and kLikeSpeeds times it the most ranks lie that hold
// enough; of as many, the fastest.
double usual_speed(const ClusterSpec& cluster, Tokens capacity, Tokens enough) {
  std::vector<double> speeds;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    if (cluster.capacity_of(Rank(r), capacity) >= enough)
      speeds.push_back(cluster.speed_of(Rank(r)));
  }
  std::sort(speeds.begin(), speeds.end());
  std::size_t most = 0;
  double usual = 1;
  for (std::size_t first = 0, end = 0; first < speeds.size(); ++first) {
    while (end < speeds.size() && speeds[end] <= kLikeSpeeds * speeds[first]) ++end;
    if (end - first < most) continue;
    most = end - first;
    usual = speeds[first];
  }
  return usual;
}

}  // namespace

std::optional<LikeRanks> find_like_ranks(const ClusterSpec& cluster, Tokens capacity,
                                         bool whole_nodes) {
  LikeRanks found;
  found.capacity = usual_capacity(cluster, capacity);
  found.cluster = cluster;
  const double speed = usual_speed(cluster, capacity, found.capacity);
  std::vector<bool> is_odd(static_cast<std::size_t>(cluster.num_ranks));
  std::vector<bool> has_odd(static_cast<std::size_t>(cluster.num_nodes()));
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const double own = cluster.speed_of(Rank(r));
    if (cluster.capacity_of(Rank(r), capacity) >= found.capacity && own >= speed &&
        own <= kLikeSpeeds * speed)
      continue;
    is_odd[static_cast<std::size_t>(r)] = true;
    has_odd[static_cast<std::size_t>(cluster.node_of(Rank(r)))] = true;
  }
  std::vector<std::int32_t> odd;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const bool goes_along =
        whole_nodes && has_odd[static_cast<std::size_t>(cluster.node_of(Rank(r)))];
    (goes_along || is_odd[static_cast<std::size_t>(r)] ? odd : found.order).push_back(r);
  }
  found.num_like = static_cast<std::int32_t>(found.order.size());
  if (found.num_like < kLeastShare * cluster.num_ranks) return std::nullopt;
  found.order.insert(found.order.end(), odd.begin(), odd.end());
  found.cluster.speed.assign(static_cast<std::size_t>(found.num_like), speed);
  found.cluster.memory.assign(static_cast<std::size_t>(found.num_like), 1.0);
  for (const std::int32_t r : odd) {
    found.cluster.speed.push_back(cluster.speed_of(Rank(r)));
    const Tokens own = cluster.capacity_of(Rank(r), capacity);
    found.cluster.memory.push_back(std::min(1.0, ratio(own, found.capacity)));
  }
  const auto is_full = [](double memory) { return memory == 1.0; };
  if (std::all_of(found.cluster.memory.begin(), found.cluster.memory.end(), is_full))
    found.cluster.memory.clear();
  return found;
}

void rename_ranks(const std::vector<std::int32_t>& order, std::int32_t num_ranks, StepPlan& plan) {
  std::vector<std::vector<MicroBatch>> ranks(static_cast<std::size_t>(num_ranks));
  for (std::size_t i = 0; i < order.size(); ++i)
    ranks[static_cast<std::size_t>(order[i])] = std::move(plan.ranks[i]);
  for (Group& group : plan.groups) {
    for (Rank& rank : group.ranks) rank = Rank(order[static_cast<std::size_t>(rank.value())]);
  }
  plan.ranks = std::move(ranks);
  plan.num_ranks = num_ranks;
}

}  // namespace weft
