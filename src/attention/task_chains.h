// Chains of tasks for the threads of a team.
//
// Tasks of one chain work on the same memory, so a thread stays with its chain until no task of it
// is left, then begins the next one. When all chains are begun it helps where most tasks are left.
// A chain's tasks start in their order, each once; who computes which is open.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace weft {

class TaskChains {
 public:
  // `ends`: by chain, the task after its last; the first chain begins with task 0.
  explicit TaskChains(std::span<const std::int64_t> ends);

  // Called by each thread of the team. Returns when no task is left to start.
  template <class Compute>  // compute(task_idx)
  void work_off(const Compute& compute) {
    for (;;) {
      const std::int64_t begun = next_chain_.fetch_add(1, std::memory_order_relaxed);
      if (begun >= num_chains_) break;
      work_off(chains_[begun], compute);
    }
    while (Chain* const fullest = fullest_chain()) work_off(*fullest, compute);
  }

 private:
  struct Chain {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };

  template <class Compute>
  static void work_off(Chain& chain, const Compute& compute) {
    for (;;) {
      const std::int64_t task = chain.next.fetch_add(1, std::memory_order_relaxed);
      if (task >= chain.end) return;
      compute(task);
    }
  }

  Chain* fullest_chain() const;  // null: no task is left

  std::int64_t num_chains_ = 0;
  std::unique_ptr<Chain[]> chains_;
  std::atomic<std::int64_t> next_chain_ = 0;
};

}  // namespace weft
