// RankProfile: how many ranks are free at each time, while groups are placed in it.
//
// A group takes D ranks, any D, for its time. Because ranks are interchangeable here, groups whose
// degrees add up to at most N at every moment can always be given ranks of their own: taken in
// order of their starts, each finds D of the N ranks free. So the profile needs no ranks, only
// counts.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace weft {

class RankProfile {
 public:
  explicit RankProfile(std::int32_t num_ranks);

  // Earliest time at which `degree` ranks are free for `duration` ns. REQUIRES: degree <=
  // num_ranks.
  std::int64_t earliest_start(std::int32_t degree, std::int64_t duration);
  // REQUIRES: they are free.
  void take(std::int64_t start, std::int64_t duration, std::int32_t degree);

  // End of the last group; 0 without one.
  std::int64_t last_end() const;
  // Least time below which the free ranks, and `more` that are always free, add up to `area`
  // rank-nanoseconds.
  std::int64_t level_of(double area, double more = 0) const;

 private:
  struct Segment {
    std::int64_t start = 0;  // ends where the next one starts; the last one never ends
    std::int32_t free = 0;
  };
  std::size_t segment_at(std::int64_t time) const;  // REQUIRES: not before segment first_free_
  std::size_t split_at(std::int64_t time);

  std::vector<Segment> segments_;
  std::size_t first_free_ = 0;  // no segment before it has a free rank
  // [degree], the last one for all larger degrees: fewer ranks than that are free before this time.
  std::array<std::int64_t, 32> too_few_before_{};
};

}  // namespace weft
