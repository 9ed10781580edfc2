#include "memory/block_space.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace weft {

std::int64_t BlockSpace::padded(std::int64_t bytes) const {
  return (std::max<std::int64_t>(bytes, 1) + alignment_ - 1) / alignment_ * alignment_;
}

std::int64_t BlockSpace::take(std::int64_t bytes) {
  const std::int64_t size = padded(bytes);
  for (auto stretch = free_.begin(); stretch != free_.end(); ++stretch) {
    const auto [place, room] = *stretch;
    if (room < size) continue;
    free_.erase(stretch);
    if (room > size) free_.emplace(place + size, room - size);
    return place;
  }
  std::int64_t place = end_;
  if (!free_.empty()) {  // grow the last stretch when it reaches the end
    const auto last = std::prev(free_.end());
    if (last->first + last->second == end_) {
      place = last->first;
      free_.erase(last);
    }
  }
  end_ = place + size;
  return place;
}

void BlockSpace::give_back(std::int64_t place, std::int64_t bytes) {
  std::int64_t size = padded(bytes);
  WEFT_CHECK(place >= 0 && place + size <= end_, "a place of {}+{} in {}", place, size, end_);
  auto next = free_.lower_bound(place);
  WEFT_CHECK(next == free_.end() || place + size <= next->first, "place {} is free already", place);
  if (next != free_.end() && next->first == place + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    WEFT_CHECK(before->first + before->second <= place, "place {} is free already", place);
    if (before->first + before->second == place) {
      before->second += size;
      return;
    }
  }
  free_.emplace_hint(next, place, size);
}

}  // namespace weft
