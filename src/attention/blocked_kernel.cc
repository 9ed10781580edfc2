#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/kernel_shapes.h"
#include "attention/kernel_tasks.h"
#include "attention/simd/dot_rows.h"
#include "attention/task_chains.h"
#include "attention/work_team.h"

namespace weft {
namespace {

// Memory of one thread, kept from call to call: fresh pages would cost a short call more than its
// arithmetic.
class Scratch {
 public:
  template <class T>
  T* reserve(std::int64_t size) {
    const auto bytes = static_cast<std::size_t>(size) * sizeof(T);
    if (bytes > bytes_) {
      memory_ = hwy::AllocateAligned<std::byte>(bytes);
      WEFT_CHECK(memory_ != nullptr, "attention kernel: no memory for {} bytes of scratch", bytes);
      bytes_ = bytes;
    }
    return reinterpret_cast<T*>(memory_.get());
  }

 private:
  hwy::AlignedFreeUniquePtr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

class BlockedKernel final : public AttentionKernel {
 public:
  explicit BlockedKernel(int num_threads)
      : team_(num_threads), scratch_(static_cast<std::size_t>(num_threads)) {}

  std::string_view name() const override { return "blocked"; }
  void forward(std::span<const ForwardPair<float>> pairs) const override { run_forward(pairs); }
  void forward(std::span<const ForwardPair<double>> pairs) const override { run_forward(pairs); }
  void start_backward(const BackwardStart<float>& start) const override { run_start(start); }
  void start_backward(const BackwardStart<double>& start) const override { run_start(start); }
  void backward(std::span<const BackwardPair<float>> pairs) const override { run_backward(pairs); }
  void backward(std::span<const BackwardPair<double>> pairs) const override { run_backward(pairs); }

 private:
  template <class T>
  void run_forward(std::span<const ForwardPair<T>> pairs) const {
    std::int64_t scratch_size = 0;
    for (const ForwardPair<T>& pair : pairs) {
      check_pair(pair);
      scratch_size = std::max(scratch_size, forward_scratch_size(pair.q.head_dim));
    }
    const std::vector<ForwardTask<T>> tasks = forward_tasks(pairs);
    const std::int64_t num_tasks = static_cast<std::int64_t>(tasks.size());
    run<T>(num_tasks, scratch_size, [&](std::int64_t i, T* scratch) {
      const std::int64_t next = i + team_.num_threads();
      forward_lanes(tasks[i], next < num_tasks ? &tasks[next] : nullptr, scratch);
    });
  }

  template <class T>
  void run_start(const BackwardStart<T>& start) const {
    constexpr std::int64_t kRows = 512;  // a task: some tens of microseconds
    const std::int64_t num_tasks = (start.num_rows + kRows - 1) / kRows;
    run<T>(num_tasks, 0, [&](std::int64_t i, T*) {
      const std::int64_t row = i * kRows, num_rows = std::min(kRows, start.num_rows - row);
      const std::int64_t from = row * start.num_heads * start.head_dim;
      dot_rows(start.out + from, start.d_out + from, {num_rows, start.num_heads, start.head_dim},
               RowStats<T>{start.delta.data + row, start.delta.head_stride});
      std::fill_n(start.gradients + row * start.gradients_row, num_rows * start.gradients_row,
                  T(0));
    });
  }

  template <class T>
  void run_backward(std::span<const BackwardPair<T>> pairs) const {
    std::int64_t scratch_size = 0;
    for (const BackwardPair<T>& pair : pairs) {
      check_pair(pair);
      scratch_size = std::max(scratch_size, backward_scratch_size(pair.q.head_dim));
    }
    const BackwardTasks<T> tasks(pairs);
    TaskChains chains(tasks.chain_ends());
    const std::int64_t num_workers =
        std::min<std::int64_t>(team_.num_threads(), std::ssize(tasks.list()));
    run<T>(num_workers, scratch_size, [&](std::int64_t, T* scratch) {
      chains.work_off([&](std::int64_t task) { backward_lanes(tasks.list()[task], scratch); });
    });
  }

  template <class T, class Compute>
  void run(std::int64_t num_tasks, std::int64_t scratch_size, const Compute& compute) const {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) {  // another caller has the team; the result is the same without it
      Scratch own;
      T* scratch = own.reserve<T>(scratch_size);
      for (std::int64_t i = 0; i < num_tasks; ++i) compute(i, scratch);
      return;
    }
    for (Scratch& scratch : scratch_) scratch.reserve<T>(scratch_size);
    team_.run(num_tasks, [&](std::int64_t i, int thread_idx) {
      compute(i, scratch_[thread_idx].template reserve<T>(scratch_size));
    });
  }

  mutable std::mutex busy_;
  mutable WorkTeam team_;                 // guarded by busy_
  mutable std::vector<Scratch> scratch_;  // [threads], guarded by busy_
};

}  // namespace

std::unique_ptr<AttentionKernel> make_blocked_kernel(int num_threads) {
  return std::make_unique<BlockedKernel>(num_threads);
}

}  // namespace weft
