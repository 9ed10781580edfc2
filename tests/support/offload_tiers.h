// Tiers of tests: in memory, late and out of order, failing at a chosen copy.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "memory/offload_tier.h"

namespace weft::testing {

// Holds blocks in a map; every copy has ended when its call returns.
class MapTier : public OffloadTier {
 public:
  OffloadBlock reserve(std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    blocks_[next_place_].resize(static_cast<std::size_t>(bytes));
    return {.place = next_place_++, .bytes = bytes};
  }
  void release(const OffloadBlock& block) override {
    const std::lock_guard lock(mutex_);
    WEFT_CHECK_EQ(blocks_.erase(block.place), 1U, "blocks at place {}", block.place);
  }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    {
      const std::lock_guard lock(mutex_);
      std::memcpy(blocks_.at(block.place).data(), from.data_ptr(), from.nbytes());
    }
    bytes_written_ += block.bytes;
    return ended();
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    const std::lock_guard lock(mutex_);
    std::memcpy(into.data_ptr(), blocks_.at(block.place).data(), into.nbytes());
    return ended();
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return blocks_.empty();
  }
  std::int64_t bytes_written() const { return bytes_written_; }

 private:
  static OffloadTransfer ended() {
    std::promise<void> done;
    done.set_value();
    return done.get_future().share();
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, std::vector<std::byte>> blocks_;
  std::int64_t next_place_ = 0;
  std::atomic<std::int64_t> bytes_written_ = 0;
};

// Carries out copies late, each on its own time and in random order, by a thread of its own.
class LateTier : public OffloadTier {
 public:
  explicit LateTier(std::uint64_t seed,
                    std::chrono::microseconds delay = std::chrono::microseconds(50))
      : random_(seed, "late tier"), delay_(delay), thread_([this] { run(); }) {}
  ~LateTier() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  OffloadBlock reserve(std::int64_t bytes) override { return inner_.reserve(bytes); }
  void release(const OffloadBlock& block) override { inner_.release(block); }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    return enqueue({.reads = false, .block = block, .tensor = std::move(from), .done = {}});
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    return enqueue({.reads = true, .block = block, .tensor = std::move(into), .done = {}});
  }
  // No copy begins between hold() and let_go().
  void hold() { set_held(true); }
  void let_go() { set_held(false); }
  bool empty() const { return inner_.empty(); }

 private:
  struct Copy {
    bool reads = false;
    OffloadBlock block;
    at::Tensor tensor;
    std::promise<void> done;
  };
  void set_held(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
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
    for (std::uint64_t n = 0;; ++n) {
      changed_.wait(lock, [this] { return (!queue_.empty() && !held_) || stopping_; });
      if (queue_.empty()) return;
      lock.unlock();
      std::this_thread::sleep_for(delay_);
      lock.lock();
      const auto i = static_cast<std::ptrdiff_t>(random_.below(n, queue_.size()));
      Copy copy = std::move(queue_[static_cast<std::size_t>(i)]);
      queue_.erase(queue_.begin() + i);
      lock.unlock();
      (copy.reads ? inner_.read(copy.block, copy.tensor) : inner_.write(copy.block, copy.tensor))
          .get();
      copy.tensor.reset();
      copy.done.set_value();
      lock.lock();
    }
  }

  MapTier inner_;
  RandomStream random_;
  std::chrono::microseconds delay_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Copy> queue_;
  bool held_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

// The copies with these numbers, counted from 0 over writes or over reads, fail.
class FailingTier : public MapTier {
 public:
  FailingTier(std::int64_t failing_write, std::int64_t failing_read)
      : failing_write_(failing_write), failing_read_(failing_read) {}
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    if (num_writes_++ == failing_write_) return failed("a write");
    return MapTier::write(block, std::move(from));
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    if (num_reads_++ == failing_read_) return failed("a read");
    return MapTier::read(block, std::move(into));
  }

 private:
  static OffloadTransfer failed(const char* what) {
    std::promise<void> done;
    done.set_exception(
        std::make_exception_ptr(IoError(fmt::format("offload: {} in '/fake' fails", what))));
    return done.get_future().share();
  }
  std::int64_t failing_write_;
  std::int64_t failing_read_;
  std::int64_t num_writes_ = 0;
  std::int64_t num_reads_ = 0;
};

}  // namespace weft::testing
