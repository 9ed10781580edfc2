#include "memory/freed_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace weft {
namespace {

// Fresh pages that this thread has touched so far.
long num_faults() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

// What a step does with memory of the C library: some messages at once, all freed at its end.
void run_step() {
  constexpr std::size_t kBytes = 3 << 20;
  std::vector<std::unique_ptr<std::byte[]>> messages;
  for (int i = 0; i < 8; ++i) {
    messages.push_back(std::make_unique_for_overwrite<std::byte[]>(kBytes));
    std::memset(messages.back().get(), i, kBytes);
  }
}

TEST(FreedMemory, AStepTouchesThePagesOfTheStepBefore) {
  keep_freed_memory();
  std::thread rank([] {
    run_step();
    run_step();
    const long before = num_faults();
    for (int i = 0; i < 4; ++i) run_step();
    // One step has 6144 pages.
    EXPECT_LE(num_faults() - before, 64);
  });
  rank.join();
}

}  // namespace
}  // namespace weft
