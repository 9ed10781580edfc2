#include "memory/block_cache.h"

#include <sys/mman.h>

#include <algorithm>

namespace weft {
namespace {

constexpr std::size_t kGranularity = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up_to(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// `size` bytes aligned to a huge page, or null.
void* map_block(std::size_t size) {
  const std::size_t slack = size >= kHugePage ? kHugePage : 0;
  void* mapped =
      ::mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (slack == 0) return mapped;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uintptr_t aligned = round_up_to(begin, kHugePage);
  if (aligned > begin) ::munmap(mapped, aligned - begin);
  const std::uintptr_t end = begin + size + slack;
  if (end > aligned + size) ::munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
  void* data = reinterpret_cast<void*>(aligned);
  // Advice only: a system without huge pages does as well, more slowly.
  ::madvise(data, size, MADV_HUGEPAGE);
  return data;
}

}  // namespace

BlockCache::~BlockCache() {
  while (drop_oldest()) {
  }
}

MemoryBlock BlockCache::take(std::size_t bytes) {
  const std::size_t size = round_up_to(std::max<std::size_t>(bytes, 1), kGranularity);
  if (size < bytes) return {};  // overflow
  const std::lock_guard lock(mutex_);
  MemoryBlock block = take_kept(size);
  if (block.data == nullptr) {
    const std::size_t most_lent = std::max(most_lent_bytes_, lent_bytes_ + size);
    const std::size_t limit = std::min(most_lent + most_lent / 8, limit_bytes_);
    while (lent_bytes_ + size + kept_bytes_ > limit && drop_oldest()) {
    }
    block = {map_block(size), size};
    while (block.data == nullptr && drop_oldest()) block.data = map_block(size);
    if (block.data == nullptr) return {};
  }
  lent_bytes_ += block.bytes;
  most_lent_bytes_ = std::max(most_lent_bytes_, lent_bytes_);
  return block;
}

void BlockCache::give_back(MemoryBlock block) {
  const std::lock_guard lock(mutex_);
  lent_bytes_ -= block.bytes;
  kept_bytes_ += block.bytes;
  kept_.emplace(block.bytes, Kept{block.data, num_given_back_++});
  while (lent_bytes_ + kept_bytes_ > limit_bytes_ && drop_oldest()) {
  }
}

void BlockCache::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = bytes > 0 ? bytes : std::numeric_limits<std::size_t>::max();
}

MemoryBlock BlockCache::take_kept(std::size_t size) {
  const auto found = kept_.lower_bound(size);
  if (found == kept_.end() || found->first > size + size / 8) return {};
  // What a block is too large counts as lent; near the limit there is no room for it.
  if (found->first > size && lent_bytes_ + found->first > limit_bytes_) return {};
  const MemoryBlock block{found->second.data, found->first};
  kept_bytes_ -= block.bytes;
  kept_.erase(found);
  return block;
}

bool BlockCache::drop_oldest() {
  const auto oldest = std::min_element(
      kept_.begin(), kept_.end(),
      [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  if (oldest == kept_.end()) return false;
  ::munmap(oldest->second.data, oldest->first);
  kept_bytes_ -= oldest->first;
  kept_.erase(oldest);
  return true;
}

std::size_t BlockCache::lent_bytes() const {
  const std::lock_guard lock(mutex_);
  return lent_bytes_;
}

std::size_t BlockCache::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace weft
