#include "plan/rank_profile.h"

namespace weft {

RankProfile::RankProfile(std::int32_t num_ranks) : segments_{{.start = 0, .free = num_ranks}} {}

std::int64_t RankProfile::earliest_start(std::int32_t degree, std::int64_t duration) const {
  std::size_t first = first_free_;
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

std::size_t RankProfile::split_at(std::int64_t time, std::size_t from) {
  std::size_t i = from;
  while (i + 1 < segments_.size() && segments_[i + 1].start <= time) ++i;
  if (segments_[i].start == time) return i;
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                   {.start = time, .free = segments_[i].free});
  return i + 1;
}

void RankProfile::take(std::int64_t start, std::int64_t duration, std::int32_t degree) {
  const std::size_t begin = split_at(start, first_free_);
  const std::size_t end = split_at(start + duration, begin);
  for (std::size_t i = begin; i < end; ++i) segments_[i].free -= degree;
  while (segments_[first_free_].free == 0) ++first_free_;
}

std::int64_t RankProfile::last_end() const { return segments_.back().start; }

std::int64_t RankProfile::level_of(double area) const {
  for (std::size_t i = first_free_; i < segments_.size(); ++i) {
    const auto free = static_cast<double>(segments_[i].free);
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
