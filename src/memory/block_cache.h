// Large blocks of memory, kept for the tensors that come next.
//
// The first touch of a fresh page costs more than most kernels spend on filling it, and a step
// makes tensors of ever other sizes, because its micro-batches differ. Memory that is given back
// therefore stays mapped, neighbours grow together again, and a request gets the front of the
// smallest kept piece that holds it; only when none does is memory mapped. Kept and lent memory
// together never exceeds what was reserved, or what was lent at most by more than an eighth, nor a
// limit that was set while the lent alone fits into it: before more is mapped, what was kept
// longest goes back to the system. Memory is mapped in huge pages (2 MiB) where the limits leave
// room for them, and the system is asked to use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

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
  // Brings kept and lent memory together up to so many bytes that have been touched, as far as the
  // limit allows; on a thread that has time, so that those who take blocks find no fresh page. Any
  // call may leave it as it is, none makes it less. Stops early once `is_wanted` says no, asked
  // before each piece of 32 MiB; empty: always.
  void reserve(std::size_t bytes, const std::function<bool()>& is_wanted = {});

  std::size_t lent_bytes() const;
  std::size_t kept_bytes() const;

 private:
  using Address = std::uintptr_t;
  struct Kept {
    std::size_t bytes = 0;
    std::uint64_t since = 0;  // counts blocks given back; of the part that came last
  };
  using KeptPieces = std::map<Address, Kept>;

  void keep(Address begin, Kept piece);
  KeptPieces::iterator remove(KeptPieces::iterator piece);
  Address take_kept(std::size_t size);
  Address map_more(std::size_t size);
  std::size_t missing_for(std::size_t bytes) const;
  std::size_t drop_oldest(std::size_t most);
  void drop_until(std::size_t kept_bytes);

  mutable std::mutex mutex_;
  KeptPieces kept_;  // no two touch; this and the rest guarded by mutex_
  std::set<std::pair<std::size_t, Address>> by_size_;  // the same pieces
  std::size_t lent_bytes_ = 0;
  std::size_t most_lent_bytes_ = 0;
  std::size_t reserved_bytes_ = 0;
  std::size_t in_flight_bytes_ = 0;  // mapped by reserve(), not kept yet
  std::size_t limit_bytes_ = std::numeric_limits<std::size_t>::max();
  std::size_t kept_bytes_ = 0;
  std::uint64_t num_given_back_ = 0;
};

}  // namespace weft
