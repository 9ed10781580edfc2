#include "sim/step_end.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

StepEndSpec round_spec() {
  return {.gradient_bytes = 1e9,
          .weight_bytes = 5e8,
          .optimizer_bytes = 1e6,
          .memory_bytes_per_second = 1e9,
          .node_bytes_per_second = 1e10,
          .node_latency_ns = 100,
          .nic_bytes_per_second = 1e9,
          .nic_latency_ns = 1000};
}

TEST(StepEnd, OneNodeReducesOverItsLinksAlone) {
  const StepEnd end = step_end(round_spec(), 4, 8);
  EXPECT_EQ(end.reduce_scatter, Nanoseconds(75'000'000 + 300)) << "3/4 of 1 GB at 10 GB/s";
  EXPECT_EQ(end.all_gather, Nanoseconds(37'500'000 + 300));
  EXPECT_EQ(end.optimizer, Nanoseconds(2'000'000)) << "the shard read and written";
  EXPECT_EQ(end.nic_bytes, 0);
  EXPECT_EQ(end.node_bytes, 0.75 * 1.5e9);
}

TEST(StepEnd, BetweenNodesEveryDeviceSendsItsPart) {
  const StepEnd end = step_end(round_spec(), 32, 8);
  // Inside: 7/8 of 1 GB; outside: an eighth of it, 3/4 of that.
  EXPECT_EQ(end.reduce_scatter, Nanoseconds(87'500'000 + 700 + 93'750'000 + 3000));
  EXPECT_EQ(end.nic_bytes, 1.5e9 / 8 * 0.75);
}

TEST(StepEnd, OneRankOrNoGradientsReduceNothing) {
  const StepEnd alone = step_end(round_spec(), 1, 8);
  EXPECT_EQ(alone.reduce_scatter, 0_ns);
  EXPECT_EQ(alone.node_bytes, 0);
  StepEndSpec none;
  EXPECT_EQ(step_end(none, 64, 8).all_gather, 0_ns);
}

}  // namespace
}  // namespace weft
