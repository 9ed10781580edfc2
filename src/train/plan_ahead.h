// PlanAhead: plans the next steps on a thread of its own while the current one runs, so that
// planning is off the critical path. One thread lives as long as the run: a thread per step would
// start each time on another malloc arena, and resident memory would creep. It also fetches the
// memory that the steps will take and nobody held before, so that no step waits for fresh pages.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "train/memory_budget.h"
#include "train/plan_feed.h"

namespace weft {

// A plan that has been proved and cut for its ranks.
struct PreparedStep {
  FedPlan fed;
  Hash128 hash;
  std::vector<std::vector<std::byte>> slices;  // [num_ranks], encoded
  MemoryParts memory;                          // predicted, of the rank with the largest peak
  Bytes large_blocks;  // that the ranks of this process may take together, predicted
};

struct PlanAheadOptions {
  std::int32_t num_ranks = 1;
  std::int32_t offload_layers = 0;          // see check_runnable
  std::int64_t num_steps = 0;               // steps that will be taken at most
  std::int64_t depth = 1;                   // steps that may lie ready, at least 1
  MemoryBudget memory = {};                 // of every rank
  std::int32_t ranks_here = 1;              // ranks 0 to ranks_here - 1 are of this process
  // Fetches memory for large blocks until the second says no; empty: nobody does.
  std::function<void(Bytes, const std::function<bool()>&)> reserve = {};
};
// Throws what check_runnable and check_budget throw.
PreparedStep prepare_step(FedPlan fed, const PlanAheadOptions& options);

// The feed must outlive this object and is called from its thread alone.
class PlanAhead {
 public:
  PlanAhead(PlanFeed& feed, const PlanAheadOptions& options);
  ~PlanAhead();  // waits for the plan being made; plans that lie ready are dropped
  PlanAhead(const PlanAhead&) = delete;
  PlanAhead& operator=(const PlanAhead&) = delete;

  // Steps come in order; waits only for what is not ready. An error of the feed comes out here, at
  // its step, and at every call after it.
  PreparedStep take();

 private:
  void run();

  PlanFeed& feed_;
  PlanAheadOptions options_;
  std::int64_t steps_left_to_take_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PreparedStep> ready_;
  std::exception_ptr error_;  // after the last of ready_
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace weft
