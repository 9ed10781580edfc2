#include "attention/task_chains.h"

namespace weft {

TaskChains::TaskChains(std::span<const std::int64_t> ends)
    : num_chains_(static_cast<std::int64_t>(ends.size())),
      chains_(std::make_unique<Chain[]>(ends.size())) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    chains_[i].next.store(begin, std::memory_order_relaxed);
    chains_[i].end = begin = ends[i];
  }
}

TaskChains::Chain* TaskChains::fullest_chain() const {
  Chain* fullest = nullptr;
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < num_chains_; ++i) {
    const std::int64_t left = chains_[i].end - chains_[i].next.load(std::memory_order_relaxed);
    if (left <= most) continue;
    most = left;
    fullest = &chains_[i];
  }
  return fullest;
}

}  // namespace weft
