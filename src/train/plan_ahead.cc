#include "train/plan_ahead.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "memory/counting_allocator.h"
#include "plan/plan_codec.h"
#include "plan/plan_slice.h"

namespace weft {
namespace {

// Of the rank's largest micro-batch whose rows are large blocks; 0: its tensors are small, and the
// C library's.
Bytes large_blocks_of(const MemoryShape& shape, const PlanSlice& slice) {
  Bytes largest;
  for (const MicroBatchSize& size : micro_batch_sizes(slice)) {
    if (is_large_block(Bytes(size.tokens * shape.layer.hidden_size * shape.element_bytes)))
      largest = std::max(largest, predict_peak(shape, size).tensors());
  }
  return largest;
}

}  // namespace

PreparedStep prepare_step(FedPlan fed, const PlanAheadOptions& options) {
  const StepPlan& plan = fed.plan;
  check_runnable(plan, options.num_ranks, options.offload_layers);
  PreparedStep prepared;
  prepared.hash = plan_hash(plan);
  for (std::int32_t r = 0; r < options.num_ranks; ++r) {
    const PlanSlice slice = slice_plan(plan, prepared.hash, Rank(r));
    const MemoryParts memory = check_budget(options.memory, slice);
    if (r == 0 || memory.total() > prepared.memory.total()) prepared.memory = memory;
    if (r < options.ranks_here)
      prepared.large_blocks += large_blocks_of(options.memory.shape, slice);
    prepared.slices.push_back(encode_slice(slice));
  }
  prepared.fed = std::move(fed);
  return prepared;
}

PlanAhead::PlanAhead(PlanFeed& feed, const PlanAheadOptions& options)
    : feed_(feed), options_(options), steps_left_to_take_(options.num_steps) {
  WEFT_CHECK(options.depth >= 1, "a depth of {} plans ahead; expected at least 1", options.depth);
  thread_ = std::thread([this] { run(); });
}

PlanAhead::~PlanAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PlanAhead::run() {
  const auto goes_on = [this] {
    const std::lock_guard lock(mutex_);
    return !stopping_;
  };
  std::unique_lock lock(mutex_);
  for (std::int64_t step = 0; step < options_.num_steps; ++step) {
    changed_.wait(lock, [this] {
      return stopping_ || static_cast<std::int64_t>(ready_.size()) < options_.depth;
    });
    if (stopping_) return;
    lock.unlock();
    PreparedStep prepared;
    std::exception_ptr error;
    try {
      prepared = prepare_step(feed_.next(), options_);
      if (options_.reserve) options_.reserve(prepared.large_blocks, goes_on);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    if (!error) ready_.push_back(std::move(prepared));
    changed_.notify_all();
    if (error) return;
  }
}

PreparedStep PlanAhead::take() {
  WEFT_CHECK(steps_left_to_take_ > 0, "more plans taken than the {} announced", options_.num_steps);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  --steps_left_to_take_;
  PreparedStep step = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return step;
}

}  // namespace weft
