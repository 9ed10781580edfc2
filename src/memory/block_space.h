// BlockSpace: which stretches of a growing file are taken. First fit, neighbours joined, so that a
// step finds the places of the step before.
#pragma once

#include <cstdint>
#include <map>

namespace weft {

class BlockSpace {
 public:
  // All places and sizes are multiples of `alignment`.
  explicit BlockSpace(std::int64_t alignment) : alignment_(alignment) {}

  std::int64_t take(std::int64_t bytes);                   // the place; bytes >= 0
  void give_back(std::int64_t place, std::int64_t bytes);  // as they were taken
  std::int64_t end() const { return end_; }                // of the highest place ever taken
  bool empty() const { return end_ == 0 || (free_.size() == 1 && free_.begin()->second == end_); }

 private:
  std::int64_t padded(std::int64_t bytes) const;

  std::int64_t alignment_;
  std::map<std::int64_t, std::int64_t> free_;  // place -> bytes, below end_
  std::int64_t end_ = 0;
};

}  // namespace weft
