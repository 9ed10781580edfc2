// Tiers for benchmarks: one that is as slow as it is told, and the control without overlap.
#pragma once

#include <chrono>
#include <thread>
#include <utility>

#include "memory/offload_tier.h"
#include "tests/support/copy_queue.h"

namespace weft::bench {

// Another tier, one copy at a time, none faster than the rate: a copy lasts as long as its bytes
// take at that rate, and holds its tensor as long.
class ThrottledTier final : public OffloadTier {
 public:
  explicit ThrottledTier(OffloadTier& inner) : inner_(inner), thread_([this] { run(); }) {}
  ~ThrottledTier() override {
    queue_.close();
    thread_.join();
  }
  // REQUIRES: no copy is under way.
  void set_rate(double bytes_per_second) { bytes_per_second_ = bytes_per_second; }

  OffloadBlock reserve(std::int64_t bytes) override { return inner_.reserve(bytes); }
  void release(const OffloadBlock& block) override { inner_.release(block); }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    return queue_.push({.reads = false, .block = block, .tensor = std::move(from)});
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    return queue_.push({.reads = true, .block = block, .tensor = std::move(into)});
  }

 private:
  using Clock = std::chrono::steady_clock;

  void run() {
    Clock::time_point free_at{};
    while (queue_.wait()) {
      testing::CopyQueue::Copy copy = queue_.take([](std::size_t) { return std::size_t{0}; });
      // Back to back, a copy that woke late does not delay the next one.
      const auto now = Clock::now();
      const auto begin = now - free_at < std::chrono::milliseconds(2) ? free_at : now;
      free_at = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                            static_cast<double>(copy.block.bytes) / bytes_per_second_));
      testing::carry_out(inner_, copy);
      std::this_thread::sleep_until(free_at);
      testing::finish(copy);
    }
  }

  OffloadTier& inner_;
  double bytes_per_second_ = 1e9;
  testing::CopyQueue queue_;
  std::thread thread_;
};

// Every copy has ended when its call returns.
class SynchronousTier final : public OffloadTier {
 public:
  explicit SynchronousTier(OffloadTier& inner) : inner_(inner) {}
  OffloadBlock reserve(std::int64_t bytes) override { return inner_.reserve(bytes); }
  void release(const OffloadBlock& block) override { inner_.release(block); }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    return ended(inner_.write(block, std::move(from)));
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    return ended(inner_.read(block, std::move(into)));
  }

 private:
  static OffloadTransfer ended(OffloadTransfer transfer) {
    transfer.wait();
    return transfer;
  }
  OffloadTier& inner_;
};

}  // namespace weft::bench
