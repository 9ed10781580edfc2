// Tiers of tests: in memory, late and out of order, failing at a chosen copy.
#pragma once

#include <atomic>
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
#include "tests/support/copy_queue.h"

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
    queue_.close();
    thread_.join();
  }
  OffloadBlock reserve(std::int64_t bytes) override { return inner_.reserve(bytes); }
  void release(const OffloadBlock& block) override { inner_.release(block); }
  OffloadTransfer write(const OffloadBlock& block, at::Tensor from) override {
    return queue_.push({.reads = false, .block = block, .tensor = std::move(from)});
  }
  OffloadTransfer read(const OffloadBlock& block, at::Tensor into) override {
    return queue_.push({.reads = true, .block = block, .tensor = std::move(into)});
  }
  // No copy begins between hold() and let_go().
  void hold() { queue_.set_held(true); }
  void let_go() { queue_.set_held(false); }
  bool empty() const { return inner_.empty(); }

 private:
  void run() {
    for (std::uint64_t n = 0; queue_.wait(); ++n) {
      std::this_thread::sleep_for(delay_);  // more copies arrive to choose from
      CopyQueue::Copy copy = queue_.take(
          [&](std::size_t count) { return static_cast<std::size_t>(random_.below(n, count)); });
      carry_out(inner_, copy);
      finish(copy);
    }
  }

  MapTier inner_;
  RandomStream random_;
  std::chrono::microseconds delay_;
  CopyQueue queue_;
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
