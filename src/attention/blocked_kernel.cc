#include <hwy/aligned_allocator.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/kernel_shapes.h"
#include "attention/key_turns.h"
#include "attention/simd/backward_lanes.h"
#include "attention/simd/forward_lanes.h"
#include "attention/work_team.h"

namespace weft {
namespace {

// Memory of one thread, kept from call to call: fresh pages would cost a short call more than its
// arithmetic.
class Scratch {
 public:
  template <class T>
  T* reserve(std::int64_t size) {
    const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
    if (bytes > bytes_) {
      memory_ = hwy::AllocateAligned<std::byte>(bytes);
      WEFT_CHECK(memory_ != nullptr, "attention kernel: no memory for {} bytes of scratch", bytes);
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  hwy::AlignedFreeUniquePtr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

// The lanes of one key head in blocks of equal size, as few as the largest size allows.
struct LaneCut {
  std::int64_t num_blocks = 0;
  std::int64_t block_lanes = kLaneStep;

  LaneCut(std::int64_t num_lanes, std::int64_t most_lanes) {
    if (num_lanes == 0) return;
    const std::int64_t fewest = (num_lanes + most_lanes - 1) / most_lanes;
    block_lanes = round_up((num_lanes + fewest - 1) / fewest, kLaneStep);
    num_blocks = (num_lanes + block_lanes - 1) / block_lanes;
  }
};

// Visits the blocks of all key heads that see a key, later queries first: they see most keys, and
// the shortest tasks come last. visit(block_idx, block).
template <class Pair, class Visit>
void visit_blocks(const Pair& pair, const LaneCut& cut, const Visit& visit) {
  for (std::int64_t i = cut.num_blocks - 1; i >= 0; --i) {
    for (std::int64_t kv_head = 0; kv_head < pair.k.num_heads; ++kv_head) {
      const QueryLanes lanes = lanes_of(pair, kv_head);
      const std::int64_t first = i * cut.block_lanes;
      const LaneBlock block{lanes, first, std::min(cut.block_lanes, lanes.num_lanes() - first)};
      if (lanes.visible(first + block.num_lanes - 1) > 0) visit(i, block);
    }
  }
}

template <class Pair>
LaneCut cut_lanes(const Pair& pair, const BlockSizes& sizes) {
  return {lanes_of(pair, 0).num_lanes(), sizes.num_lanes};
}

template <class T>
std::vector<ForwardTask<T>> forward_tasks(std::span<const ForwardPair<T>> pairs) {
  std::vector<ForwardTask<T>> tasks;
  for (const ForwardPair<T>& pair : pairs) {
    const LaneCut cut = cut_lanes(pair, forward_block_sizes(pair.q.head_dim));
    visit_blocks(pair, cut,
                 [&](std::int64_t, const LaneBlock& block) { tasks.push_back({&pair, block}); });
  }
  return tasks;
}

// Backward's tasks and whose turn it is at each block of keys.
template <class T>
class BackwardTasks {
 public:
  explicit BackwardTasks(std::span<const BackwardPair<T>> pairs) {
    std::int64_t num_turns = 0;
    for (const BackwardPair<T>& pair : pairs) num_turns += pair.k.num_heads * num_key_blocks(pair);
    turns_ = std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(num_turns));
    std::atomic<std::int64_t>* turns = turns_.get();
    for (const BackwardPair<T>& pair : pairs) {
      const LaneCut cut = cut_lanes(pair, backward_block_sizes(pair.q.head_dim));
      const std::int64_t num_blocks = num_key_blocks(pair);
      visit_blocks(pair, cut, [&](std::int64_t i, const LaneBlock& block) {
        list_.push_back({&pair, block, KeyTurns(turns + block.lanes.kv_head * num_blocks, i)});
      });
      for (std::int64_t i = 0; i < pair.k.num_heads * num_blocks; ++i) {
        (turns++)->store(cut.num_blocks - 1, std::memory_order_relaxed);
      }
    }
  }

  const std::vector<BackwardTask<T>>& list() const { return list_; }

 private:
  static std::int64_t num_key_blocks(const BackwardPair<T>& pair) {
    const std::int64_t num_keys = backward_block_sizes(pair.q.head_dim).num_keys;
    return (pair.k.num_rows + num_keys - 1) / num_keys;
  }

  std::unique_ptr<std::atomic<std::int64_t>[]> turns_;
  std::vector<BackwardTask<T>> list_;
};

class BlockedKernel final : public AttentionKernel {
 public:
  explicit BlockedKernel(int num_threads)
      : team_(num_threads), scratch_(static_cast<std::size_t>(num_threads)) {}

  std::string_view name() const override { return "blocked"; }
  void forward(std::span<const ForwardPair<float>> pairs) const override { run_forward(pairs); }
  void forward(std::span<const ForwardPair<double>> pairs) const override { run_forward(pairs); }
  void backward(std::span<const BackwardPair<float>> pairs) const override { run_backward(pairs); }
  void backward(std::span<const BackwardPair<double>> pairs) const override { run_backward(pairs); }

 private:
  template <class T>
  void run_forward(std::span<const ForwardPair<T>> pairs) const {
    std::int64_t scratch_size = 0;
    for (const ForwardPair<T>& pair : pairs) {
      check_pair(pair);
      scratch_size = std::max(scratch_size, forward_scratch_size(pair.q.head_dim));
    }
    const std::vector<ForwardTask<T>> tasks = forward_tasks(pairs);
    const std::int64_t num_tasks = static_cast<std::int64_t>(tasks.size());
    run<T>(num_tasks, scratch_size, [&](std::int64_t i, T* scratch) {
      const std::int64_t next = i + team_.num_threads();
      forward_lanes(tasks[i], next < num_tasks ? &tasks[next] : nullptr, scratch);
    });
  }

  template <class T>
  void run_backward(std::span<const BackwardPair<T>> pairs) const {
    std::int64_t scratch_size = 0;
    for (const BackwardPair<T>& pair : pairs) {
      check_pair(pair);
      scratch_size = std::max(scratch_size, backward_scratch_size(pair.q.head_dim));
    }
    const BackwardTasks<T> tasks(pairs);
    run<T>(static_cast<std::int64_t>(tasks.list().size()), scratch_size,
           [&](std::int64_t i, T* scratch) { backward_lanes(tasks.list()[i], scratch); });
  }

  template <class T, class Compute>
  void run(std::int64_t num_tasks, std::int64_t scratch_size, const Compute& compute) const {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) {  // another caller has the team; the result is the same without it
      Scratch own;
      T* scratch = own.reserve<T>(scratch_size);
      for (std::int64_t i = 0; i < num_tasks; ++i) compute(i, scratch);
      return;
    }
    for (Scratch& scratch : scratch_) scratch.reserve<T>(scratch_size);
    team_.run(num_tasks, [&](std::int64_t i, int thread_idx) {
      compute(i, scratch_[thread_idx].template reserve<T>(scratch_size));
    });
  }

  mutable std::mutex busy_;
  mutable WorkTeam team_;                 // guarded by busy_
  mutable std::vector<Scratch> scratch_;  // [threads], guarded by busy_
};

}  // namespace

std::unique_ptr<AttentionKernel> make_blocked_kernel(int num_threads) {
  return std::make_unique<BlockedKernel>(num_threads);
}

}  // namespace weft
