#include "base/parallel_parts.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace weft {
namespace {

TEST(ParallelParts, EveryPartRunsOnceOnNoMoreThreadsThanAsked) {
  for (const int num_threads : {1, 2, 3, 7}) {
    for (const std::size_t num_parts : {0, 1, 2, 3, 7, 100}) {
      std::vector<int> runs(num_parts);
      std::mutex mutex;
      std::set<std::thread::id> threads;
      for_each_part(num_threads, num_parts, [&](std::size_t part) {
        ++runs[part];
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
      EXPECT_EQ(runs, std::vector<int>(num_parts, 1)) << num_threads;
      EXPECT_LE(threads.size(), static_cast<std::size_t>(num_threads));
    }
  }
}

TEST(ParallelParts, OneThreadIsTheCallerAndTakesPartsInOrder) {
  std::vector<std::size_t> order;
  for_each_part(1, 5, [&](std::size_t part) { order.push_back(part); });
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(ParallelParts, TheErrorOfTheFirstPartThatFailedArrivesAndTheOthersHaveRun) {
  for (const int num_threads : {1, 2, 3, 7}) {
    std::vector<int> runs(20);
    std::string said;
    try {
      for_each_part(num_threads, runs.size(), [&](std::size_t part) {
        ++runs[part];
        if (part == 5 || part == 11) throw_user_error("part {}", part);
      });
    } catch (const UserError& error) {
      said = error.what();
    }
    EXPECT_EQ(said, "part 5") << num_threads;
    EXPECT_EQ(runs, std::vector<int>(20, 1)) << num_threads;
  }
}

}  // namespace
}  // namespace weft
