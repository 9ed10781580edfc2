#include "memory/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "memory/block_cache.h"

namespace weft {
namespace {

using Counts = AllocationCounter::Counts;

thread_local const std::shared_ptr<Counts>* current_counts = nullptr;

inline constexpr std::size_t kAlignment = 64;

// Stands in front of each tensor's memory.
struct alignas(kAlignment) BlockHeader {
  std::shared_ptr<Counts> counts;  // null: not counted
  std::int64_t bytes = 0;
  std::size_t block_bytes = 0;  // of the cached block that it starts; 0: the C library's memory
};
static_assert(sizeof(BlockHeader) == kAlignment);

// A cached block begins at a page; its tensor begins at the next one, the header just before it, so
// that the disk can read and write the tensor without a copy.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeaderInPage = kPage - sizeof(BlockHeader);

void charge(Counts& counts, std::int64_t bytes) {
  counts.allocations.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t live = counts.live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t peak = counts.peak_bytes.load(std::memory_order_relaxed);
  while (live > peak && !counts.peak_bytes.compare_exchange_weak(peak, live)) {
  }
}

// Process-wide as libtorch's allocator is: a tensor may be freed by any thread, and while statics
// are destroyed.
BlockCache& large_blocks() {
  static BlockCache* const cache = new BlockCache;
  return *cache;
}

void free_block(void* context) {
  auto* header = static_cast<BlockHeader*>(context);
  if (header->counts)
    header->counts->live_bytes.fetch_sub(header->bytes, std::memory_order_relaxed);
  const std::size_t block_bytes = header->block_bytes;
  header->~BlockHeader();
  if (block_bytes > 0) {
    large_blocks().give_back({static_cast<std::byte*>(context) - kHeaderInPage, block_bytes});
  } else {
    std::free(context);
  }
}

// Where the header of a tensor of so many bytes goes, and the size of the cached block if it is in
// one; null when there is no room.
MemoryBlock take_memory(std::size_t bytes) {
  if (bytes < BlockCache::kSmallestBlock)
    return {std::aligned_alloc(kAlignment, sizeof(BlockHeader) + bytes), 0};
  const MemoryBlock block = large_blocks().take(kPage + bytes);
  if (block.data == nullptr) return {};
  return {static_cast<std::byte*>(block.data) + kHeaderInPage, block.bytes};
}

c10::DataPtr allocate_block(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, cpu};
  const std::size_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const MemoryBlock memory =
      padded < bytes || padded + kPage < padded ? MemoryBlock() : take_memory(padded);
  WEFT_USER_CHECK(memory.data != nullptr,
                  "memory: no room for a tensor of {}; lower the capacity per rank or run fewer "
                  "ranks on this machine",
                  format_bytes(Bytes(static_cast<std::int64_t>(bytes))));
  auto* header = new (memory.data) BlockHeader;
  header->block_bytes = memory.bytes;
  header->bytes = static_cast<std::int64_t>(bytes);
  if (current_counts != nullptr) {
    header->counts = *current_counts;
    charge(*header->counts, header->bytes);
  }
  return {header + 1, header, &free_block, cpu};
}

// libtorch 1.13 declares allocate() const; 2.x declares it without const and adds copy_data(). Each
// of these members overrides what the base class at hand has and is a plain member otherwise, hence
// no `override`.
class CountingAllocator final : public c10::Allocator {
 public:
  virtual c10::DataPtr allocate(std::size_t bytes) const { return allocate_block(bytes); }
  virtual c10::DataPtr allocate(std::size_t bytes) { return allocate_block(bytes); }
  virtual void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
};

}  // namespace

AllocationCounter::AllocationCounter() : counts_(std::make_shared<Counts>()) {}

Bytes AllocationCounter::live() const { return Bytes(counts_->live_bytes.load()); }

Bytes AllocationCounter::peak() const { return Bytes(counts_->peak_bytes.load()); }

std::int64_t AllocationCounter::total_allocations() const { return counts_->allocations.load(); }

void AllocationCounter::reset_peak() { counts_->peak_bytes.store(counts_->live_bytes.load()); }

AllocationScope::AllocationScope(const AllocationCounter& counter)
    : counts_(counter.counts_), outer_(current_counts) {
  current_counts = &counts_;
}

AllocationScope::~AllocationScope() { current_counts = outer_; }

void install_counting_allocator() {
  // libtorch keeps the pointer for the life of the process, also while statics are destroyed.
  static CountingAllocator* const allocator = new CountingAllocator;
  constexpr std::uint8_t kPriority = 1;  // above libtorch's own registration
  c10::SetCPUAllocator(allocator, kPriority);
}

void limit_large_blocks(Bytes bytes) {
  large_blocks().set_limit(static_cast<std::size_t>(bytes.value()));
}

void reserve_large_blocks(Bytes bytes, const std::function<bool()>& is_wanted) {
  large_blocks().reserve(static_cast<std::size_t>(bytes.value()), is_wanted);
}

void reserve_states(Bytes states_of_rank, std::int32_t num_ranks) {
  // Four tensors of equal size.
  if (is_large_block(Bytes(states_of_rank.value() / 4)))
    reserve_large_blocks(num_ranks * states_of_rank);
}

bool is_large_block(Bytes bytes) {
  return bytes.value() >= static_cast<std::int64_t>(BlockCache::kSmallestBlock);
}

}  // namespace weft
