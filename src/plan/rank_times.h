// When each rank is free while groups are placed on ranks of unequal memory, in any order of time:
// between groups that it has, and for good after the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"
#include "plan/uneven_group.h"

namespace weft {

// A rank's free time around a moment.
struct FreeRank {
  std::uint32_t rank = 0;
  std::int64_t since = 0;
  std::int64_t until = std::numeric_limits<std::int64_t>::max();  // 0: it is not free
};

class RankTimes {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  explicit RankTimes(std::size_t num_ranks) : free_(num_ranks, {FreeTime{}}) {}

  // Times at which ranks that hold `tokens` together are free for `shortest` ns or longer,
  // ascending. `ranks`: all of them.
  std::vector<std::int64_t> starts(std::span<const Member> ranks, Tokens tokens,
                                   std::int64_t shortest) const;
  // Of every rank, whether it is free for `shortest` ns from `start` on.
  void find_free(std::int64_t start, std::int64_t shortest, std::vector<FreeRank>& free) const;
  // The first time from `start` on at which these are all free for `length` ns.
  std::int64_t first_common(std::span<const std::uint32_t> ranks, std::int64_t start,
                            std::int64_t length) const;
  // REQUIRES: the rank is free from `begin` to `end`.
  void take(std::uint32_t rank, std::int64_t begin, std::int64_t end);
  // From then on the rank is free for good.
  std::int64_t end_of(std::size_t rank) const { return free_[rank].back().begin; }

 private:
  struct FreeTime {
    std::int64_t begin = 0;
    std::int64_t end = kNever;
  };
  std::vector<std::vector<FreeTime>> free_;  // [ranks] ascending; the last one never ends
};

}  // namespace weft
