#include "plan/rank_kinds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {
namespace {

// More kinds of ranks than this are rounded to faster and larger ones.
constexpr std::size_t kMostKinds = 1024;
constexpr double kGrid = 64;

}  // namespace

std::vector<RankKind> kinds_of(const ClusterSpec& cluster, Tokens capacity) {
  std::vector<RankKind> kinds;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const Tokens own = cluster.capacity_of(Rank(r), capacity);
    if (own == Tokens(0)) continue;
    kinds.push_back({cluster.speed_of(Rank(r)), static_cast<double>(own.value()), 1});
  }
  const auto merge = [&] {
    std::sort(kinds.begin(), kinds.end(), std::greater<>());
    std::size_t last = 0;
    for (std::size_t i = 1; i < kinds.size(); ++i) {
      if (kinds[i].speed == kinds[last].speed && kinds[i].memory == kinds[last].memory) {
        kinds[last].count += kinds[i].count;
      } else {
        kinds[++last] = kinds[i];
      }
    }
    kinds.resize(last + 1);
  };
  merge();
  if (kinds.size() <= kMostKinds) return kinds;
  // What is better in every rank ends no later.
  double fastest = 0;
  double most = 0;
  for (const RankKind& kind : kinds) {
    fastest = std::max(fastest, kind.speed);
    most = std::max(most, kind.memory);
  }
  for (RankKind& kind : kinds) {
    kind.speed = std::max(kind.speed, std::ceil(kind.speed / fastest * kGrid) / kGrid * fastest);
    kind.memory = std::max(kind.memory, std::ceil(kind.memory / most * kGrid) / kGrid * most);
  }
  merge();
  return kinds;
}

}  // namespace weft
