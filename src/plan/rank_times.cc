#include "plan/rank_times.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

std::vector<std::int64_t> RankTimes::starts(std::span<const Member> ranks, Tokens tokens,
                                            std::int64_t shortest) const {
  struct Change {
    std::int64_t time = 0;
    std::int64_t held = 0;
  };
  std::vector<Change> changes;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const FreeTime& free : free_[r]) {
      if (free.end == kNever) {
        changes.push_back({free.begin, ranks[r].capacity});
      } else if (free.end - free.begin >= shortest) {
        changes.push_back({free.begin, ranks[r].capacity});
        changes.push_back({free.end - shortest + 1, -ranks[r].capacity});
      }
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.time != b.time ? a.time < b.time : a.held < b.held;
  });
  std::vector<std::int64_t> starts;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    held += changes[i].held;
    const bool is_last = i + 1 == changes.size() || changes[i + 1].time != changes[i].time;
    if (is_last && changes[i].held > 0 && held >= tokens.value()) starts.push_back(changes[i].time);
  }
  return starts;
}

void RankTimes::find_free(std::int64_t start, std::int64_t shortest,
                          std::vector<FreeRank>& free) const {
  free.assign(free_.size(), {.rank = 0, .since = 0, .until = 0});
  for (std::size_t r = 0; r < free_.size(); ++r) {
    for (const FreeTime& time : free_[r]) {
      if (time.begin > start) break;
      if (time.end - start < shortest) continue;
      free[r] = {static_cast<std::uint32_t>(r), time.begin, time.end};
    }
  }
}

std::int64_t RankTimes::first_common(std::span<const std::uint32_t> ranks, std::int64_t start,
                                     std::int64_t length) const {
  for (bool is_moved = true; is_moved;) {
    is_moved = false;
    for (const std::uint32_t rank : ranks) {
      for (const FreeTime& free : free_[rank]) {
        if (free.end - length < std::max(start, free.begin)) continue;
        if (free.begin > start) {
          start = free.begin;
          is_moved = true;
        }
        break;
      }
    }
  }
  return start;
}

void RankTimes::take(std::uint32_t rank, std::int64_t begin, std::int64_t end) {
  std::vector<FreeTime>& free = free_[rank];
  for (std::size_t i = 0; i < free.size(); ++i) {
    if (free[i].begin > begin || free[i].end < end) continue;
    const FreeTime before{free[i].begin, begin};
    free[i].begin = end;
    if (free[i].begin == free[i].end) {
      if (before.begin < before.end) {
        free[i] = before;
      } else {
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(i));
      }
    } else if (before.begin < before.end) {
      free.insert(free.begin() + static_cast<std::ptrdiff_t>(i), before);
    }
    return;
  }
  throw_internal_error("plan: rank {} is not free from {} to {} ns", rank, begin, end);
}

}  // namespace weft
