// The order in which blocks of queries add to the gradients of the same keys.
//
// Blocks of one key head are numbered; block b may add to a block of keys only after all blocks
// above b that see those keys. Each sum then has one order of summands, whatever the number of
// threads and whoever computes what. A thread that starts blocks in falling order waits only for
// blocks already started, so no cycle of waits can arise.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

class KeyTurns {
 public:
  KeyTurns() = default;  // nobody to wait for
  // `turns`: by block of keys, the block of queries whose turn it is.
  KeyTurns(std::atomic<std::int64_t>* turns, std::int64_t block) : turns_(turns), block_(block) {}

  void wait(std::int64_t key_block) const {
    if (turns_ == nullptr) return;
    // The others are mostly ahead already; where they are not, it is a matter of microseconds.
    for (int looks = 0; looks < kLooks; ++looks) {
      if (turns_[key_block].load(std::memory_order_acquire) == block_) return;
    }
    for (;;) {
      const std::int64_t turn = turns_[key_block].load(std::memory_order_acquire);
      if (turn == block_) return;
      turns_[key_block].wait(turn, std::memory_order_acquire);
    }
  }
  void pass(std::int64_t key_block) const {
    if (turns_ == nullptr) return;
    turns_[key_block].store(block_ - 1, std::memory_order_release);
    turns_[key_block].notify_all();
  }

 private:
  static constexpr int kLooks = 10'000;
  std::atomic<std::int64_t>* turns_ = nullptr;
  std::int64_t block_ = 0;
};

}  // namespace weft
