#include "attention/work_team.h"

#include "base/error.h"

namespace weft {

WorkTeam::WorkTeam(int num_threads) {
  WEFT_CHECK(num_threads >= 1, "work team: needs at least 1 thread, got {}", num_threads);
  helpers_.reserve(static_cast<std::size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) helpers_.emplace_back([this, i] { help(i); });
}

WorkTeam::~WorkTeam() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  start_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkTeam::run(std::int64_t num_tasks, const Work& work) {
  if (helpers_.empty() || num_tasks <= 1) {
    for (std::int64_t task = 0; task < num_tasks; ++task) work(task, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    num_tasks_ = num_tasks;
    next_task_.store(0, std::memory_order_relaxed);
    ++num_runs_;
  }
  start_.notify_all();
  take_tasks(work, 0);
  // Helpers that have not woken by now find nothing to do and are not waited for.
  std::unique_lock lock(mutex_);
  work_ = nullptr;
  done_.wait(lock, [this] { return num_busy_ == 0; });
}

void WorkTeam::take_tasks(const Work& work, int thread_idx) noexcept {
  for (;;) {
    const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= num_tasks_) return;
    work(task, thread_idx);
  }
}

void WorkTeam::help(int thread_idx) {
  std::int64_t runs_seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return ending_ || num_runs_ != runs_seen; });
    if (ending_) return;
    runs_seen = num_runs_;
    if (work_ == nullptr) continue;
    const Work& work = *work_;
    ++num_busy_;
    lock.unlock();
    take_tasks(work, thread_idx);
    lock.lock();
    if (--num_busy_ == 0) done_.notify_one();
  }
}

}  // namespace weft
