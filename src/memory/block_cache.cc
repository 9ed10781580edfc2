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

void unmap(std::uintptr_t begin, std::size_t bytes) {
  if (bytes > 0) ::munmap(reinterpret_cast<void*>(begin), bytes);
}

// `size` bytes, those of a huge page or more aligned to one; 0 when the system has no room.
std::uintptr_t map_memory(std::size_t size) {
  const std::size_t slack = size >= kHugePage ? kHugePage : 0;
  void* mapped =
      ::mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  if (slack == 0) return begin;
  const std::uintptr_t aligned = round_up_to(begin, kHugePage);
  unmap(begin, aligned - begin);
  unmap(aligned + size, begin + slack - aligned);
  // Advice only: a system without huge pages does as well, more slowly.
  ::madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  return aligned;
}

// Fresh pages of the stretch, without a trap for each. False: this system cannot (before Linux
// 5.14), or has no room.
bool touch(std::uintptr_t begin, std::size_t size) {
#ifdef MADV_POPULATE_WRITE
  return ::madvise(reinterpret_cast<void*>(begin), size, MADV_POPULATE_WRITE) == 0;
#else
  static_cast<void>(begin);
  return size == 0;
#endif
}

}  // namespace

BlockCache::~BlockCache() { drop_until(0); }

MemoryBlock BlockCache::take(std::size_t bytes) {
  const std::size_t size = round_up_to(std::max<std::size_t>(bytes, 1), kGranularity);
  if (size < bytes) return {};  // overflow
  const std::lock_guard lock(mutex_);
  Address begin = take_kept(size);
  if (begin == 0) begin = map_more(size);
  if (begin == 0) return {};
  lent_bytes_ += size;
  most_lent_bytes_ = std::max(most_lent_bytes_, lent_bytes_);
  return {reinterpret_cast<void*>(begin), size};
}

void BlockCache::give_back(MemoryBlock block) {
  const std::lock_guard lock(mutex_);
  lent_bytes_ -= block.bytes;
  keep(reinterpret_cast<Address>(block.data), {block.bytes, num_given_back_++});
  drop_until(limit_bytes_ > lent_bytes_ ? limit_bytes_ - lent_bytes_ : 0);
}

void BlockCache::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_bytes_ = bytes > 0 ? bytes : std::numeric_limits<std::size_t>::max();
}

// The piece that is being touched counts, so that no other thread keeps memory in its room; what
// others had to map meanwhile goes first.
void BlockCache::reserve(std::size_t bytes, const std::function<bool()>& is_wanted) {
  constexpr std::size_t kAtATime = 16 * kHugePage;
  std::unique_lock lock(mutex_);
  reserved_bytes_ = std::max(reserved_bytes_, std::min(bytes, limit_bytes_));
  while (const std::size_t missing = missing_for(bytes)) {
    const std::size_t size = std::min(missing, kAtATime);
    in_flight_bytes_ += size;
    lock.unlock();
    const bool goes_on = !is_wanted || is_wanted();
    const Address begin = goes_on ? map_memory(size) : 0;
    const bool touched = begin != 0 && touch(begin, size);
    lock.lock();
    in_flight_bytes_ -= size;
    const bool has_room = lent_bytes_ + kept_bytes_ + size <= limit_bytes_;
    if (begin != 0 && !(touched && has_room)) unmap(begin, size);
    if (!touched || !has_room) return;
    keep(begin, {size, num_given_back_});
  }
}

// In whole huge pages: up to the next one, if the limit allows it.
std::size_t BlockCache::missing_for(std::size_t bytes) const {
  const std::size_t held = lent_bytes_ + kept_bytes_ + in_flight_bytes_;
  const std::size_t aim = std::min(bytes, limit_bytes_);
  if (aim <= held) return 0;
  const std::size_t more = round_up_to(aim - held, kHugePage);
  return held + more <= limit_bytes_ ? more : more - kHugePage;
}

// Joins the piece with those that it touches.
void BlockCache::keep(Address begin, Kept piece) {
  const auto join = [&](KeptPieces::iterator other) {
    piece.bytes += other->second.bytes;
    piece.since = std::max(piece.since, other->second.since);
    return remove(other);
  };
  auto next = kept_.lower_bound(begin);
  if (next != kept_.end() && next->first == begin + piece.bytes) next = join(next);
  if (next != kept_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == begin) {
      begin = before->first;
      join(before);
    }
  }
  kept_bytes_ += piece.bytes;
  by_size_.emplace(piece.bytes, begin);
  kept_.emplace(begin, piece);
}

BlockCache::KeptPieces::iterator BlockCache::remove(KeptPieces::iterator piece) {
  kept_bytes_ -= piece->second.bytes;
  by_size_.erase({piece->second.bytes, piece->first});
  return kept_.erase(piece);
}

BlockCache::Address BlockCache::take_kept(std::size_t size) {
  const auto found = by_size_.lower_bound({size, 0});
  if (found == by_size_.end()) return 0;
  const Address begin = found->second;
  const auto piece = kept_.find(begin);
  const Kept rest{piece->second.bytes - size, piece->second.since};
  remove(piece);
  if (rest.bytes > 0) keep(begin + size, rest);
  return begin;
}

// Maps `size` bytes, or up to the end of their last huge page; what is more is kept.
BlockCache::Address BlockCache::map_more(std::size_t size) {
  const std::size_t most_lent = std::max(most_lent_bytes_, lent_bytes_ + size);
  const std::size_t limit =
      std::min(std::max(most_lent + most_lent / 8, reserved_bytes_), limit_bytes_);
  const std::size_t used = lent_bytes_ + in_flight_bytes_ + size;
  const std::size_t room = limit > used ? limit - used : 0;
  drop_until(room);
  const std::size_t whole = round_up_to(size, kHugePage);
  std::size_t mapped = whole >= size && kept_bytes_ + (whole - size) <= room ? whole : size;
  Address begin = map_memory(mapped);
  while (begin == 0 && (mapped > size || kept_bytes_ > 0)) {
    if (mapped == size) drop_oldest(std::numeric_limits<std::size_t>::max());
    mapped = size;
    begin = map_memory(mapped);
  }
  if (begin != 0 && mapped > size) keep(begin + size, {mapped - size, num_given_back_});
  return begin;
}

// Gives at most `most` bytes of the piece that was kept longest back to the system.
std::size_t BlockCache::drop_oldest(std::size_t most) {
  const auto oldest = std::min_element(
      kept_.begin(), kept_.end(),
      [](const auto& a, const auto& b) { return a.second.since < b.second.since; });
  const auto [begin, piece] = *oldest;
  remove(oldest);
  const std::size_t dropped =
      std::min(piece.bytes, most < piece.bytes ? round_up_to(most, kGranularity) : piece.bytes);
  unmap(begin + piece.bytes - dropped, dropped);
  if (dropped < piece.bytes) keep(begin, {piece.bytes - dropped, piece.since});
  return dropped;
}

void BlockCache::drop_until(std::size_t kept_bytes) {
  while (kept_bytes_ > kept_bytes) drop_oldest(kept_bytes_ - kept_bytes);
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
