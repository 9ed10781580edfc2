// Counts the bytes of tensors that each rank holds: now, at most, and how many were made.
//
// A program installs the allocator once, before it makes tensors; every CPU tensor made after that
// carries its counter and size in front of its memory, so whoever frees it, on whichever thread and
// however late, credits the counter it was charged to. Memory is aligned to 64 bytes (a cache line,
// the widest vector register), that of large tensors (block_cache.h) to 4096 (a page, what direct
// input and output want).
//
// Which counter an allocation is charged to is decided by the innermost AllocationScope of the
// allocating thread. That is a thread_local pointer, the only one of Weft, and it is one because
// libtorch calls the allocator from inside its kernels, through an interface that carries no
// context: the thread is all that tells two ranks apart there. Allocations outside every scope, or
// on threads that libtorch starts itself, are made but not counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/units.h"

namespace weft {

// Copies share the same counts. All members may be called from any thread.
class AllocationCounter {
 public:
  AllocationCounter();

  Bytes live() const;                      // tensor bytes charged and not yet freed
  Bytes peak() const;                      // largest live() since construction or reset_peak()
  std::int64_t total_allocations() const;  // since construction
  void reset_peak();                       // peak() becomes live()

  struct Counts {
    std::atomic<std::int64_t> live_bytes{0};
    std::atomic<std::int64_t> peak_bytes{0};
    std::atomic<std::int64_t> allocations{0};
  };

 private:
  friend class AllocationScope;
  std::shared_ptr<Counts>
      counts_;  // shared with the tensors that were charged: they may live longer
};

// While it lives, tensors that this thread makes are charged to `counter`. Scopes nest; the
// innermost counts.
class AllocationScope {
 public:
  explicit AllocationScope(const AllocationCounter& counter);
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;

 private:
  std::shared_ptr<AllocationCounter::Counts> counts_;
  const std::shared_ptr<AllocationCounter::Counts>* outer_;
};

// Makes libtorch allocate CPU tensors through this module. Safe to call more than once, from any
// thread.
void install_counting_allocator();

// What large blocks in use and kept for reuse may take together in this process, while those in use
// fit into it (block_cache.h); 0: no limit.
void limit_large_blocks(Bytes bytes);

// Fetches memory for large blocks ahead of those who will take it, until there are so many bytes in
// use and kept, within the limit, or `is_wanted` says no (BlockCache::reserve).
void reserve_large_blocks(Bytes bytes, const std::function<bool()>& is_wanted = {});

// Before the tensors of a rank's parameters, gradients and moments are made, of so many bytes
// together: they are read and written as a whole in every step and stay for ever, so they get huge
// pages, which a process that holds nothing yet would not map for them.
void reserve_states(Bytes states_of_rank, std::int32_t num_ranks);

// Whether a tensor of so many bytes is a large block.
bool is_large_block(Bytes bytes);

}  // namespace weft
