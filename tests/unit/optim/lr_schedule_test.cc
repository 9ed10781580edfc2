#include "optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

TEST(LearningRateSchedule, RisesLinearlyThenFallsByACosine) {
  const LearningRateSchedule schedule = {
      .peak = 1.0, .minimum = 0.2, .warmup_steps = 4, .total_steps = 8};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.75);
  EXPECT_EQ(schedule.at(3), 1.0);
  // Quarters of the cosine: 0.2 + 0.4 * (1 + cos(pi * k / 4)).
  EXPECT_NEAR(schedule.at(4), 0.88284271247461907, 1e-15);
  EXPECT_NEAR(schedule.at(5), 0.6, 1e-15);
  EXPECT_NEAR(schedule.at(6), 0.31715728752538097, 1e-15);
  EXPECT_EQ(schedule.at(7), 0.2);
}

TEST(LearningRateSchedule, PeakAndMinimumAreMetExactly) {
  for (const double peak : {1e-3, 0.1, 3e-4, 7.0 / 3}) {
    for (const double minimum : {0.0, peak / 10, peak}) {
      for (const std::int64_t total : {2, 3, 7, 20, 1000, 99991}) {
        for (const std::int64_t warmup : {std::int64_t{1}, std::int64_t{2}, total / 2, total - 1}) {
          if (warmup < 1 || warmup >= total) continue;
          const LearningRateSchedule schedule = {peak, minimum, warmup, total};
          EXPECT_EQ(schedule.at(warmup - 1), peak);
          EXPECT_EQ(schedule.at(total - 1), minimum);
          EXPECT_EQ(schedule.at(total), minimum);
          EXPECT_EQ(schedule.at(total + 12345), minimum);
        }
      }
    }
  }
}

TEST(LearningRateSchedule, RisesAndFallsWithoutATurnAndStaysInBounds) {
  for (const std::int64_t total : {1, 2, 3, 5, 50}) {
    for (std::int64_t warmup = 0; warmup <= total + 1; ++warmup) {
      const LearningRateSchedule schedule = {
          .peak = 0.3, .minimum = 0.03, .warmup_steps = warmup, .total_steps = total};
      for (std::int64_t i = 0; i < total; ++i) {
        EXPECT_GT(schedule.at(i), 0);
        EXPECT_LE(schedule.at(i), 0.3);
        if (i == 0) continue;
        const double change = schedule.at(i) - schedule.at(i - 1);
        EXPECT_TRUE(i < warmup ? change > 0 : change < 0) << i << ", " << warmup << " of " << total;
      }
    }
  }
}

TEST(LearningRateSchedule, WithoutWarmupTheFirstUpdateIsOneStepDownTheCosine) {
  const LearningRateSchedule schedule = {
      .peak = 1.0, .minimum = 0.0, .warmup_steps = 0, .total_steps = 4};
  EXPECT_NEAR(schedule.at(0), 0.85355339059327373, 1e-15);
  EXPECT_NEAR(schedule.at(1), 0.5, 1e-15);
  EXPECT_EQ(schedule.at(3), 0.0);
}

TEST(LearningRateSchedule, AWarmupThatFillsTheRunEndsAtThePeak) {
  const LearningRateSchedule schedule = {
      .peak = 0.7, .minimum = 0.1, .warmup_steps = 3, .total_steps = 3};
  EXPECT_EQ(schedule.at(2), 0.7);
  EXPECT_EQ(schedule.at(3), 0.1);
}

TEST(LearningRateSchedule, AWarmupLongerThanTheRunIsCutOff) {
  const LearningRateSchedule schedule = {
      .peak = 1.0, .minimum = 0.1, .warmup_steps = 10, .total_steps = 3};
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.3);
  EXPECT_EQ(schedule.at(3), 0.1);
}

TEST(LearningRateSchedule, RunsOfOneAndNoUpdatesHaveARate) {
  const LearningRateSchedule one = {
      .peak = 0.7, .minimum = 0.1, .warmup_steps = 0, .total_steps = 1};
  EXPECT_EQ(one.at(0), 0.1);
  const LearningRateSchedule warm = {
      .peak = 0.7, .minimum = 0.1, .warmup_steps = 1, .total_steps = 1};
  EXPECT_EQ(warm.at(0), 0.7);
  const LearningRateSchedule none = {
      .peak = 0.7, .minimum = 0.1, .warmup_steps = 0, .total_steps = 0};
  EXPECT_EQ(none.at(0), 0.1);
}

TEST(LearningRateSchedule, ANegativeUpdateIsABug) {
  EXPECT_THROW(LearningRateSchedule().at(-1), InternalError);
}

}  // namespace
}  // namespace weft
