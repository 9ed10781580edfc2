// Tiers for benchmarks: one that is as slow as it is told, and the control without overlap.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "memory/offload_tier.h"

namespace weft::bench {

// Another tier, one copy at a time, none faster than the rate: a copy lasts as long as its bytes
// take at that rate, and holds its tensor as long.
class ThrottledTier final : public OffloadTier {
 public:
  explicit ThrottledTier(OffloadTier& inner) : inner_(inner), thread_([this] { run(); }) {}
  ~ThrottledTier() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  // REQUIRES: no copy is under way.
  void set_rate(double bytes_per_second) { bytes_per_second_ = bytes_per_second; }

  OffloadBlock reserve(std::int64_t bytes) override { return inner_.reserve(bytes); }
  void release(const OffloadBlock& block) override { inner_.release(block); }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    return enqueue({.reads = false, .block = block, .tensor = std::move(from), .done = {}});
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    return enqueue({.reads = true, .block = block, .tensor = std::move(into), .done = {}});
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Copy {
    bool reads = false;
    OffloadBlock block;
    at::Tensor tensor;
    std::promise<void> done;
  };

  OffloadTransfer enqueue(Copy copy) {
    OffloadTransfer transfer = copy.done.get_future().share();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(copy));
    }
    changed_.notify_all();
    return transfer;
  }

  void run() {
    std::unique_lock lock(mutex_);
    Clock::time_point free_at{};
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Copy copy = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      // Back to back, a copy that woke late does not delay the next one.
      const auto now = Clock::now();
      const auto begin = now - free_at < std::chrono::milliseconds(2) ? free_at : now;
      free_at = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                            static_cast<double>(copy.block.bytes) / bytes_per_second_));
      (copy.reads ? inner_.read(copy.block, copy.tensor) : inner_.write(copy.block, copy.tensor))
          .wait();
      std::this_thread::sleep_until(free_at);
      copy.tensor.reset();
      copy.done.set_value();
      lock.lock();
    }
  }

  OffloadTier& inner_;
  double bytes_per_second_ = 1e9;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> queue_;
  bool stopping_ = false;
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
