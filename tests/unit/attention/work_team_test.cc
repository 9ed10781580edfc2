#include "attention/work_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

TEST(WorkTeam, EveryTaskRunsOnceOnAThreadOfTheTeam) {
  for (const int num_threads : {1, 2, 3, 5}) {
    WorkTeam team(num_threads);
    EXPECT_EQ(team.num_threads(), num_threads);
    // Many runs on one team: helpers may still be asleep when a run is over.
    for (int run = 0; run < 50; ++run) {
      for (const std::int64_t num_tasks : {0, 1, 2, 7, 100}) {
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(num_tasks));
        team.run(num_tasks, [&](std::int64_t task, int thread) {
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, num_threads);
          ++calls[static_cast<std::size_t>(task)];
        });
        for (const auto& count : calls) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(WorkTeam, ATaskMayWaitForAnEarlierOne) {
  WorkTeam team(3);
  std::atomic<std::int64_t> turn = 0;
  team.run(200, [&](std::int64_t task, int) {
    for (std::int64_t seen = turn.load(); seen != task; seen = turn.load()) turn.wait(seen);
    turn.store(task + 1);
    turn.notify_all();
  });
  EXPECT_EQ(turn.load(), 200);
}

TEST(WorkTeam, NeedsAThread) { EXPECT_THROW(WorkTeam(0), InternalError); }

}  // namespace
}  // namespace weft
