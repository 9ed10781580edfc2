// How the blocked kernel cuts pairs of runs into tasks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/key_turns.h"
#include "attention/simd/backward_lanes.h"
#include "attention/simd/forward_lanes.h"
#include "attention/simd/query_lanes.h"
#include "attention/task_chains.h"

namespace weft {

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

template <class Pair>
LaneCut cut_lanes(const Pair& pair, const BlockSizes& sizes) {
  return {lanes_of(pair, 0).num_lanes(), sizes.num_lanes};
}

// visit(block) for one block of lanes of one key head, unless it sees no key.
template <class Visit>
void visit_block(const QueryLanes& lanes, const LaneCut& cut, std::int64_t block_idx,
                 const Visit& visit) {
  const std::int64_t first = block_idx * cut.block_lanes;
  const LaneBlock block{lanes, first, std::min(cut.block_lanes, lanes.num_lanes() - first)};
  if (lanes.visible(first + block.num_lanes - 1) > 0) visit(block);
}

// Later queries first: they see most keys, and the shortest tasks of a pair come last.
template <class T>
std::vector<ForwardTask<T>> forward_tasks(std::span<const ForwardPair<T>> pairs) {
  std::vector<ForwardTask<T>> tasks;
  for (const ForwardPair<T>& pair : pairs) {
    const LaneCut cut = cut_lanes(pair, forward_block_sizes(pair.q.head_dim));
    for (std::int64_t i = cut.num_blocks - 1; i >= 0; --i) {
      for (std::int64_t kv_head = 0; kv_head < pair.k.num_heads; ++kv_head) {
        visit_block(lanes_of(pair, kv_head), cut, i,
                    [&](const LaneBlock& block) { tasks.push_back({&pair, block}); });
      }
    }
  }
  return tasks;
}

// The tasks of backward. Those of one key head of one pair are a chain, later queries first: they
// add to the same gradients of keys, which stay in the cache of the thread that has the chain.
template <class T>
class BackwardTasks {
 public:
  explicit BackwardTasks(std::span<const BackwardPair<T>> pairs) {
    std::int64_t num_turns = 0;
    for (const BackwardPair<T>& pair : pairs) num_turns += pair.k.num_heads * num_key_blocks(pair);
    turns_ = std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(num_turns));
    std::atomic<std::int64_t>* turns = turns_.get();
    for (const BackwardPair<T>& pair : pairs) {
      for (std::int64_t kv_head = 0; kv_head < pair.k.num_heads; ++kv_head) {
        add_chain(pair, kv_head, std::exchange(turns, turns + num_key_blocks(pair)));
      }
    }
  }

  const std::vector<BackwardTask<T>>& list() const { return list_; }
  // Where each chain ends in the list.
  const std::vector<std::int64_t>& chain_ends() const { return chain_ends_; }

 private:
  static std::int64_t num_key_blocks(const BackwardPair<T>& pair) {
    const std::int64_t num_keys = backward_block_sizes(pair.q.head_dim).num_keys;
    return (pair.k.num_rows + num_keys - 1) / num_keys;
  }

  void add_chain(const BackwardPair<T>& pair, std::int64_t kv_head,
                 std::atomic<std::int64_t>* turns) {
    const LaneCut cut = cut_lanes(pair, backward_block_sizes(pair.q.head_dim));
    for (std::int64_t i = 0; i < num_key_blocks(pair); ++i) {
      turns[i].store(cut.num_blocks - 1, std::memory_order_relaxed);
    }
    for (std::int64_t i = cut.num_blocks - 1; i >= 0; --i) {
      visit_block(lanes_of(pair, kv_head), cut, i, [&](const LaneBlock& block) {
        list_.push_back({&pair, block, KeyTurns(turns, i)});
      });
    }
    chain_ends_.push_back(static_cast<std::int64_t>(list_.size()));
  }

  std::unique_ptr<std::atomic<std::int64_t>[]> turns_;
  std::vector<BackwardTask<T>> list_;
  std::vector<std::int64_t> chain_ends_;
};

}  // namespace weft
