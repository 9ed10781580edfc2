// In which order a device of a pipeline runs its passes, and what it may hold: 1F1B of V chunks.
//
// With V chunks a device the layers of a rank are cut into p * V virtual stages, and device d holds
// virtual stages d, p + d, 2 p + d, ... as chunks 0 to V - 1 (Megatron-LM's interleaving). Its
// forward passes are numbered in blocks of p micro-batches: chunk 0 of the p, chunk 1 of the p, and
// so on, then the next block; backward passes the same with the last chunk first. The last block is
// numbered as if it were full, so any count of micro-batches has an order. The device warms up with
// (p - d - 1) * 2 + (V - 1) * p forward passes (p - d - 1 for V = 1); from then on one backward
// pass comes after each forward pass.
//
// Numbers are used twice. As a limit of memory: a rank's forward pass number k waits for all its
// backward passes up to k - warm-up - 1, so that never more than warm-up + 1 are between forward
// and backward. All of these belong to earlier micro-batches of the rank, hence to earlier slots.
// And as priority: of the passes that can run, the first in this order goes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

class PassOrder {
 public:
  PassOrder(std::int32_t num_stages, std::int32_t num_chunks)
      : num_stages_(num_stages), num_chunks_(num_chunks) {}

  // Of micro-batch (or level of slots) `idx`, among the passes of a device in its direction.
  std::int64_t forward_number(std::int64_t idx, std::int32_t chunk) const {
    return idx / num_stages_ * block() + std::int64_t{chunk} * num_stages_ + idx % num_stages_;
  }
  std::int64_t backward_number(std::int64_t idx, std::int32_t chunk) const {
    return forward_number(idx, num_chunks_ - 1 - chunk);
  }
  struct Place {
    std::int64_t idx = 0;
    std::int32_t chunk = 0;
  };
  Place forward_at(std::int64_t number) const;
  Place backward_at(std::int64_t number) const;

  // Of all passes of so many micro-batches in one direction, with those that fill the last block.
  std::int64_t num_numbers(std::int64_t num_micro_batches) const {
    return (num_micro_batches + num_stages_ - 1) / num_stages_ * block();
  }

  // Most passes of a device between forward and backward.
  std::int64_t most_held(std::int32_t stage) const;
  // Forward and backward passes of a device in one order; smaller first.
  std::int64_t priority(std::int64_t level, std::int32_t stage, std::int32_t chunk,
                        bool is_forward) const;

 private:
  std::int64_t block() const { return std::int64_t{num_stages_} * num_chunks_; }

  std::int32_t num_stages_;
  std::int32_t num_chunks_;
};

// Which backward passes of one device of one rank have ended, and which forward passes that admits.
class HeldPasses {
 public:
  explicit HeldPasses(std::int32_t num_chunks) : ended_(static_cast<std::size_t>(num_chunks)) {}

  // The backward pass of the rank's next micro-batch in this chunk has ended. Calls `admit(idx,
  // chunk)` for every forward pass, of the rank's `num_micro_batches`, that memory does not hold up
  // any more.
  template <class Admit>
  void end_backward(const PassOrder& order, std::int32_t stage, std::int32_t chunk,
                    std::int64_t num_micro_batches, const Admit& admit) {
    ++ended_[static_cast<std::size_t>(chunk)];
    for (; num_ended_ < order.num_numbers(num_micro_batches); ++num_ended_) {
      const PassOrder::Place next = order.backward_at(num_ended_);
      const bool is_there = next.idx < num_micro_batches;
      if (is_there && next.idx >= ended_[static_cast<std::size_t>(next.chunk)]) return;
      const PassOrder::Place freed = order.forward_at(num_ended_ + order.most_held(stage));
      if (freed.idx < num_micro_batches) admit(freed.idx, freed.chunk);
    }
  }

 private:
  std::vector<std::int64_t> ended_;  // [chunks]: micro-batches, in their order
  std::int64_t num_ended_ = 0;       // of the smallest numbers, all
};

// How many slots at least come before each, over all its ranks: micro-batches that groups align
// have one level, and the levels of a rank ascend.
std::vector<std::int64_t> slot_levels(const StepPlan& plan,
                                      std::span<const std::int32_t> slot_order);

}  // namespace weft
