#include "train/compute_rate.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(CoresOfRun, ThreadsOfOneProcessShareItsCores) {
  const auto cores = [](std::int32_t ranks, std::int32_t threads, int affinity) {
    return cores_of_run({.num_ranks = ranks,
                         .threads_per_rank = threads,
                         .ranks_here = ranks,
                         .ranks_on_host = ranks},
                        {.hardware = 8, .affinity = affinity, .cpu_time = {}});
  };
  EXPECT_DOUBLE_EQ(cores(4, 1, 8), 4);
  EXPECT_DOUBLE_EQ(cores(4, 2, 8), 8);
  EXPECT_DOUBLE_EQ(cores(3, 1, 2), 2) << "three ranks on two cores";
  EXPECT_DOUBLE_EQ(cores(1, 8, 3), 3);
}

// A launcher binds each process to a core of its own: rank 0 sees one, and the run has two. MFU was
// a share of rank 0's cores, twice too high with two ranks.
TEST(CoresOfRun, ProcessesThatALauncherBoundHaveTheirOwn) {
  const auto cores = [](std::int32_t ranks, std::int32_t on_host, int affinity,
                        std::optional<double> cpu_time = {}) {
    return cores_of_run(
        {.num_ranks = ranks, .threads_per_rank = 1, .ranks_here = 1, .ranks_on_host = on_host},
        {.hardware = 4, .affinity = affinity, .cpu_time = cpu_time});
  };
  EXPECT_DOUBLE_EQ(cores(2, 2, 1), 2);
  EXPECT_DOUBLE_EQ(cores(2, 2, 4), 2) << "not bound";
  EXPECT_DOUBLE_EQ(cores(8, 8, 4), 4) << "more ranks than cores";
  EXPECT_DOUBLE_EQ(cores(8, 8, 1), 4);
  EXPECT_DOUBLE_EQ(cores(16, 4, 1), 16) << "four hosts";
  EXPECT_DOUBLE_EQ(cores(4, 4, 4, 1.5), 1.5) << "a control group's limit";
}

}  // namespace
}  // namespace weft
