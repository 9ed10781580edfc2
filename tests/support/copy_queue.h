// The waiting copies of a tier with a thread of its own, for tests and benchmarks.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/offload_tier.h"
#include "tensor/tensor.h"

namespace weft::testing {

class CopyQueue {
 public:
  struct Copy {
    bool reads = false;
    OffloadBlock block;
    at::Tensor tensor;
    std::promise<void> done = {};
  };

  OffloadTransfer push(Copy copy) {
    OffloadTransfer transfer = copy.done.get_future().share();
    change([&] { copies_.push_back(std::move(copy)); });
    return transfer;
  }
  // Until there is a copy to take; false when the queue is closed and empty.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return (!copies_.empty() && !held_) || closed_; });
    return !copies_.empty();
  }
  // The copy that `choose` names, given how many there are. REQUIRES: wait() has returned true to
  // the one thread that takes.
  Copy take(const std::function<std::size_t(std::size_t count)>& choose) {
    const std::lock_guard lock(mutex_);
    const auto chosen = copies_.begin() + static_cast<std::ptrdiff_t>(choose(copies_.size()));
    Copy copy = std::move(*chosen);
    copies_.erase(chosen);
    return copy;
  }
  // While held, wait() waits.
  void set_held(bool held) {
    change([&] { held_ = held; });
  }
  // What is there is still carried out.
  void close() {
    change([&] { closed_ = true; });
  }

 private:
  template <class Change>
  void change(const Change& make) {
    {
      const std::lock_guard lock(mutex_);
      make();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Copy> copies_;
  bool held_ = false;
  bool closed_ = false;
};

// Copies by `tier`, to the end.
inline void carry_out(OffloadTier& tier, const CopyQueue::Copy& copy) {
  (copy.reads ? tier.read(copy.block, copy.tensor) : tier.write(copy.block, copy.tensor)).get();
}

// Lets the tensor go, and whoever waits.
inline void finish(CopyQueue::Copy& copy) {
  copy.tensor.reset();
  copy.done.set_value();
}

}  // namespace weft::testing
