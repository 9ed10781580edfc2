#include "attention/task_chains.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace weft {
namespace {

TEST(TaskChains, OneThreadTakesThemInOrder) {
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{}, {0}, {1}, {0, 3, 3, 4, 9}}) {
    TaskChains chains(ends);
    std::int64_t next = 0;
    chains.work_off([&](std::int64_t task) { EXPECT_EQ(task, next++); });
    EXPECT_EQ(next, ends.empty() ? 0 : ends.back());
  }
}

TEST(TaskChains, EveryTaskRunsOnceWhateverTheThreads) {
  const std::vector<std::int64_t> ends = {40, 41, 41, 300, 310};
  for (const int num_threads : {1, 2, 3, 7}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      TaskChains chains(ends);
      std::vector<std::atomic<int>> calls(310);
      std::vector<std::thread> threads;
      for (int i = 0; i < num_threads; ++i) {
        threads.emplace_back(
            [&] { chains.work_off([&](std::int64_t task) { ++calls[std::size_t(task)]; }); });
      }
      for (std::thread& thread : threads) thread.join();
      for (const auto& count : calls) ASSERT_EQ(count.load(), 1);
    }
  }
}

// Two callers in a fixed interleaving: the second one enters while the first is at a task.
TEST(TaskChains, ASecondThreadBeginsAChainOfItsOwnAndThenHelpsTheFullest) {
  TaskChains chains(std::vector<std::int64_t>{10, 12, 15});
  std::vector<std::int64_t> second;
  chains.work_off([&](std::int64_t task) {
    if (task != 0) return;
    chains.work_off([&](std::int64_t other) { second.push_back(other); });
  });
  EXPECT_EQ(second, (std::vector<std::int64_t>{10, 11, 12, 13, 14, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace weft
