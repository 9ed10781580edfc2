#include "plan/priced_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace weft {
namespace {

// Groups of this many sequences, the longest, are looked at one by one.
constexpr std::size_t kMostVolumes = 32;
constexpr std::array<double, 16> kMemoryPrices{0.8, 0.87, 0.9,  0.95, 1.0, 1.06, 1.12, 1.2,
                                               1.3, 1.42, 1.57, 1.75, 2.0, 2.4,  3.0,  4.0};

struct RankKind {
  double speed = 1;
  double memory = 0;  // tokens
};

}  // namespace

double least_group_volume(std::span<const double> memories, double tokens) {
  // The best group of a given size and level are neighbours in this order: of those above the level
  // the smallest waste the least, of those below it the largest hold the most.
  std::vector<double> held(memories.size() + 1);
  for (std::size_t r = 0; r < memories.size(); ++r) held[r + 1] = held[r] + memories[r];
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t begin = 0; begin < memories.size(); ++begin) {
    if (held.back() - held[begin] < tokens) break;
    auto end =
        static_cast<std::size_t>(std::lower_bound(held.begin() + static_cast<std::ptrdiff_t>(begin),
                                                  held.end(), held[begin] + tokens) -
                                 held.begin());
    // Members hold min(memory, level); the first `full` ones, the largest, are above the level.
    std::size_t full = 0;
    for (; end <= memories.size(); ++end) {
      const double sum = held[end] - held[begin];
      if (sum * tokens >= best) break;  // members x level >= tokens
      const auto level_of = [&](std::size_t above) {
        return (tokens - (held[end] - held[begin + above])) / static_cast<double>(above);
      };
      full = std::max<std::size_t>(full, 1);
      while (begin + full < end && level_of(full) < memories[begin + full]) ++full;
      const double level = std::min(level_of(full), memories[begin]);
      best = std::min(best, sum * static_cast<double>(end - begin) * level);
    }
  }
  return best;
}

double priced_bound_ns(std::span<const SequenceSpec> sequences, const CostModel& cost,
                       const ClusterSpec& cluster, Tokens capacity) {
  std::vector<RankKind> ranks;
  std::vector<double> memories;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const Tokens own = cluster.capacity_of(Rank(r), capacity);
    if (own == Tokens(0)) continue;
    ranks.push_back({cluster.speed_of(Rank(r)), static_cast<double>(own.value())});
    memories.push_back(ranks.back().memory);
  }
  std::sort(memories.begin(), memories.end(), std::greater<>());
  const double most = memories.front();
  const double hop = cost.hop_ns_per_token + cost.hop_fixed_ns / most;

  double compute = 0;           // of all, fixed costs left out
  double shared_attention = 0;  // of those that no rank holds alone, hidden exchange taken off
  double volume = 0;            // of their groups, (1 - 1/D) of it
  double total_tokens = 0;
  std::size_t num_shared = 0;
  while (num_shared < sequences.size() &&
         static_cast<double>(sequences[num_shared].tokens.value()) > most)
    ++num_shared;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto tokens = static_cast<double>(sequences[i].tokens.value());
    const double attention = cost.attention_ns_per_pair * tokens * (tokens + 1) / 2;
    compute += cost.linear_ns_per_token * tokens + attention;
    total_tokens += tokens;
    if (i >= num_shared) continue;
    double own = tokens * tokens;
    if (i < kMostVolumes) own = std::max(own, least_group_volume(memories, tokens));
    const double share = 1 - 1 / std::ceil(tokens / most);  // at the least degree
    shared_attention += share * attention;
    volume += share * own;
  }
  double best = 0;
  for (const double memory_price : kMemoryPrices) {
    double all_prices = 0;
    double fixed_per_token = std::numeric_limits<double>::infinity();
    for (const RankKind& rank : ranks) {
      const double price = std::max(rank.speed, memory_price * rank.memory / most);
      all_prices += price;
      fixed_per_token = std::min(fixed_per_token, price / (rank.speed * rank.memory));
    }
    // Where exchange weighs less than attention, (1 - 1/D) of it is not the least.
    const double exchange_per_pair = memory_price / most * hop;
    if (2 * exchange_per_pair < cost.attention_ns_per_pair * (1 + 1 / most)) continue;
    const double exchange = exchange_per_pair * volume;
    best = std::max(best, (compute + exchange - shared_attention +
                           cost.fixed_ns * fixed_per_token * total_tokens) /
                              all_prices);
  }
  return best;
}

}  // namespace weft
