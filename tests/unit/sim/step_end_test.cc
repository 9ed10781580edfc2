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

TEST(StepEnd, OfAMeasuredCostIsWhatTheTrainerSendsAndUpdates) {
  CostModel cost;
  EXPECT_EQ(measured_step_end(cost, 4).gradient_bytes, 0) << "the cost does not say";
  cost.gradient_bytes = 3e6;
  cost.reduce_ns_per_byte = 2;
  cost.reduce_fixed_ns = 6000;
  cost.optimizer_ns_per_byte = 0.5;
  for (const std::int32_t ranks : {2, 3, 7, 32}) {
    const StepEnd end = step_end(measured_step_end(cost, ranks), ranks, ranks);
    const double sent = 2 * 3e6 * (ranks - 1) / ranks;
    EXPECT_NEAR(end.node_bytes, sent, 1e-3);
    EXPECT_NEAR(static_cast<double>((end.reduce_scatter + end.all_gather).value()), 2 * sent + 6000,
                2);
    EXPECT_EQ(end.optimizer, Nanoseconds(1'500'000));
  }
  cost.reduce_ns_per_byte = 0;  // lost beside the fixed part
  EXPECT_EQ(step_end(measured_step_end(cost, 4), 4, 4).reduce_scatter, Nanoseconds(3000));
  const StepEnd alone = step_end(measured_step_end(cost, 1), 1, 1);
  EXPECT_EQ(alone.reduce_scatter, 0_ns);
  EXPECT_EQ(alone.optimizer, Nanoseconds(1'500'000));
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
