// Threads that share one rank's work: the caller and its helpers take numbered tasks until none is
// left.
//
// Tasks start in ascending order; who computes which is open, so the result of a task must not
// depend on it. Helpers sleep between calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

class WorkTeam {
 public:
  // Called with the task's index and the index of the thread, 0 (the caller) up to num_threads - 1.
  using Work = std::function<void(std::int64_t task_idx, int thread_idx)>;

  // REQUIRES num_threads >= 1. The caller of `run` is one of them.
  explicit WorkTeam(int num_threads);
  ~WorkTeam();
  WorkTeam(const WorkTeam&) = delete;
  WorkTeam& operator=(const WorkTeam&) = delete;

  int num_threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Returns when all tasks are done. One caller at a time; `work` must not throw: a task may wait
  // for another one.
  void run(std::int64_t num_tasks, const Work& work);

 private:
  void help(int thread_idx);
  void take_tasks(const Work& work, int thread_idx) noexcept;

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::int64_t num_runs_ = 0;   // guarded by mutex_
  int num_busy_ = 0;            // helpers at work on the current run; guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  const Work* work_ = nullptr;  // of the current run, null between runs; guarded by mutex_
  std::int64_t num_tasks_ = 0;  // of the current run
  std::atomic<std::int64_t> next_task_ = 0;
  std::vector<std::thread> helpers_;
};

}  // namespace weft
