#include "plan/rank_orders.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace weft {

std::vector<std::uint32_t> price_order(std::span<const Member> ranks,
                                       std::span<const double> prices, const PriceOrderKey& key) {
  // A member more makes every hop of the others one more: at prices and speeds of the mean the
  // group loses with it what it gains by its speed, so far as its time is exchange.
  double member = 0;
  for (std::size_t r = key.begin; r < key.end; ++r)
    member += prices[r] - key.speed_value * ranks[r].speed;
  member = std::max(0.0, key.member_weight * member / static_cast<double>(key.end - key.begin));
  std::vector<double> costs(ranks.size());
  for (std::size_t r = key.begin; r < key.end; ++r)
    costs[r] = (prices[r] - key.speed_value * ranks[r].speed + member) /
               static_cast<double>(std::min(key.level, ranks[r].capacity));
  std::vector<std::uint32_t> order(key.end - key.begin);
  std::iota(order.begin(), order.end(), key.begin);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return costs[a] < costs[b]; });
  return order;
}

std::vector<std::uint32_t> speed_order(std::span<const Member> ranks, bool is_mixed) {
  std::vector<std::uint32_t> sorted(ranks.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return ranks[a].speed > ranks[b].speed;
  });
  if (!is_mixed) return sorted;
  std::vector<std::uint32_t> order;
  std::size_t bits = 0;
  while ((std::size_t{1} << bits) < sorted.size()) ++bits;
  for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
    std::size_t place = 0;
    for (std::size_t bit = 0; bit < bits; ++bit) place |= (i >> bit & 1) << (bits - 1 - bit);
    if (place < sorted.size()) order.push_back(sorted[place]);
  }
  return order;
}

}  // namespace weft
