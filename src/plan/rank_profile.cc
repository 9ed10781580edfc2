#include "plan/rank_profile.h"

#include <algorithm>

namespace weft {

RankProfile::RankProfile(std::int32_t num_ranks) : segments_{{.start = 0, .free = num_ranks}} {}

std::size_t RankProfile::segment_at(std::int64_t time) const {
  const auto after = std::upper_bound(
      segments_.begin() + static_cast<std::ptrdiff_t>(first_free_), segments_.end(), time,
      [](std::int64_t at, const Segment& segment) { return at < segment.start; });
  return static_cast<std::size_t>(after - segments_.begin()) - 1;
}

std::int64_t RankProfile::earliest_start(std::int32_t degree, std::int64_t duration) {
  // Ranks are only ever taken: where too few were free before, too few are free now.
  std::int64_t& known = too_few_before_[std::min<std::size_t>(static_cast<std::size_t>(degree),
                                                              too_few_before_.size() - 1)];
  std::size_t first = segment_at(std::max(known, segments_[first_free_].start));
  const auto least = static_cast<std::int32_t>(
      std::min<std::size_t>(static_cast<std::size_t>(degree), too_few_before_.size() - 1));
  while (segments_[first].free < least) ++first;
  known = segments_[first].start;
  for (std::size_t i = first; i < segments_.size(); ++i) {
    if (segments_[i].free < degree) {
      first = i + 1;
    } else if (i + 1 == segments_.size() ||
               segments_[i + 1].start - segments_[first].start >= duration) {
      break;
    }
  }
  return segments_[first].start;
}

std::size_t RankProfile::split_at(std::int64_t time) {
  const std::size_t i = segment_at(time);
  if (segments_[i].start == time) return i;
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                   {.start = time, .free = segments_[i].free});
  return i + 1;
}

void RankProfile::take(std::int64_t start, std::int64_t duration, std::int32_t degree) {
  const std::size_t begin = split_at(start);
  const std::size_t end = split_at(start + duration);
  for (std::size_t i = begin; i < end; ++i) segments_[i].free -= degree;
  while (segments_[first_free_].free == 0) ++first_free_;
}

std::int64_t RankProfile::last_end() const { return segments_.back().start; }

std::int64_t RankProfile::level_of(double area, double more) const {
  for (std::size_t i = more > 0 ? 0 : first_free_; i < segments_.size(); ++i) {
    const double free = segments_[i].free + more;
    if (free == 0) continue;
    if (i + 1 < segments_.size()) {
      const double held = free * static_cast<double>(segments_[i + 1].start - segments_[i].start);
      if (held < area) {
        area -= held;
        continue;
      }
    }
    return segments_[i].start + static_cast<std::int64_t>(area / free);
  }
  return last_end();
}

}  // namespace weft
