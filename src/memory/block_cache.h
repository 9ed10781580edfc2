// Large blocks of memory, kept for the next tensor of about their size.
//
// The first touch of a fresh page costs more than most kernels spend on filling it, and a step
// makes tensors of the same sizes over and over. A block that is given back therefore stays mapped;
// a request gets the smallest kept block that fits and is at most an eighth too large. Kept and
// lent blocks together never exceed what was lent at most by more than an eighth, nor a limit that
// was set while the lent ones alone fit into it: before a new block is mapped, those kept longest
// go back to the system. Blocks are aligned to huge pages (2 MiB) where they are as large, and the
// system is asked to use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>

namespace weft {

struct MemoryBlock {
  void* data = nullptr;
  std::size_t bytes = 0;  // at least what was asked for
};

// Any thread may call any member.
class BlockCache {
 public:
  // Below it the C library serves better.
  static constexpr std::size_t kSmallestBlock = std::size_t{256} << 10;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Aligned to a page; data is null when the system has no room.
  MemoryBlock take(std::size_t bytes);
  void give_back(MemoryBlock block);
  // Of kept and lent blocks together, from the next call on; 0: none.
  void set_limit(std::size_t bytes);

  std::size_t lent_bytes() const;
  std::size_t kept_bytes() const;

 private:
  struct Kept {
    void* data = nullptr;
    std::uint64_t since = 0;  // counts blocks given back
  };

  MemoryBlock take_kept(std::size_t size);
  bool drop_oldest();

  mutable std::mutex mutex_;
  std::multimap<std::size_t, Kept> kept_;  // by size; this and the rest guarded by mutex_
  std::size_t lent_bytes_ = 0;
  std::size_t most_lent_bytes_ = 0;
  std::size_t limit_bytes_ = std::numeric_limits<std::size_t>::max();
  std::size_t kept_bytes_ = 0;
  std::uint64_t num_given_back_ = 0;
};

}  // namespace weft
