#include "cost/cost_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace weft {
namespace {

// Times of a made-up machine: a, b, c per layer forward in seconds, backward `ratio` times that.
struct Machine {
  double a = 3e-10, b = 2e-6, c = 4e-5, ratio = 2.25;
  double ring_token = 7e-7, ring_step = 2e-5;
  int layers = 6;

  MicroBatchSample sample(std::int64_t count, std::int64_t length, double factor = 1) const {
    const std::int64_t tokens = count * length;
    const std::int64_t work = count * (length * (length + 1) / 2);
    const double layer = a * static_cast<double>(work) + b * static_cast<double>(tokens) + c;
    return {.tokens = Tokens(tokens),
            .work = work,
            .forward_s = factor * layers * layer,
            .backward_s = factor * layers * ratio * layer};
  }
  // The share of one of `degree` ranks that hold so many tokens of a sequence each.
  MicroBatchSample ring_sample(std::int32_t degree, std::int64_t tokens_each) const {
    const auto tokens = static_cast<double>(tokens_each);
    const std::int64_t length = degree * tokens_each;
    const std::int64_t work = length * (length + 1) / 2 / degree;
    const double layer = a * static_cast<double>(work) + b * tokens + c +
                         (degree - 1) * (ring_token * tokens + ring_step);
    return {.tokens = Tokens(tokens_each),
            .work = work,
            .ring_steps = degree - 1,
            .forward_s = layers * layer,
            .backward_s = layers * ratio * layer};
  }
  std::vector<MicroBatchSample> grid() const {
    std::vector<MicroBatchSample> samples;
    for (const std::int64_t tokens : {64, 512, 4096, 16384}) {
      for (const std::int64_t count : {1, 4, 16}) samples.push_back(sample(count, tokens / count));
    }
    return samples;
  }
  CostModel cost() const {
    CostModel model;
    model.num_layers = layers;
    return model;
  }
};

void expect_coefficients(const CostModel& cost, const Machine& machine, double tolerance) {
  EXPECT_NEAR(cost.attention_ns_per_pair, 1e9 * machine.a, tolerance * (1e9 * machine.a) + 1e-9);
  EXPECT_NEAR(cost.linear_ns_per_token, 1e9 * machine.b, tolerance * (1e9 * machine.b) + 1e-9);
  EXPECT_NEAR(cost.fixed_ns, 1e9 * machine.c, tolerance * (1e9 * machine.c) + 1e-9);
  EXPECT_NEAR(cost.backward_ratio, machine.ratio, tolerance * machine.ratio);
}

TEST(CostFit, FindsTheCoefficientsThatMadeTheTimes) {
  for (const Machine& machine : {Machine{}, Machine{.a = 1e-8}, Machine{.b = 0},
                                 Machine{.a = 0, .c = 0}, Machine{.c = 0.5, .layers = 1}}) {
    CostModel cost = machine.cost();
    const FitQuality quality = fit_compute(machine.grid(), cost);
    expect_coefficients(cost, machine, 1e-6);
    EXPECT_LT(quality.worst_abs_error, 1e-6);
    EXPECT_EQ(quality.relative_errors.size(), machine.grid().size());
  }
}

TEST(CostFit, FindsWhatTheFurtherStepsOfARingAdd) {
  const Machine machine;
  std::vector<MicroBatchSample> samples = machine.grid();
  CostModel cost = machine.cost();
  fit_compute(samples, cost);
  EXPECT_EQ(cost.ring_step_ns_per_token, 0) << "no sample of a ring";
  for (const std::int32_t degree : {2, 3, 8}) {
    for (const std::int64_t tokens : {64, 1024, 8192})
      samples.push_back(machine.ring_sample(degree, tokens));
  }
  EXPECT_LT(fit_compute(samples, cost).worst_abs_error, 1e-6);
  expect_coefficients(cost, machine, 1e-6);
  EXPECT_NEAR(cost.ring_step_ns_per_token, 1e9 * machine.ring_token, 1e-3);
  EXPECT_NEAR(cost.ring_step_fixed_ns, 1e9 * machine.ring_step, 1e-1);
}

TEST(CostFit, RingsThatAreFasterThanTheirPairsAndTokensLeaveTheOtherTermsAlone) {
  Machine machine;
  machine.ring_token = -1e-7;
  machine.ring_step = 0;
  std::vector<MicroBatchSample> samples = machine.grid();
  for (const std::int64_t tokens : {64, 1024, 8192})
    samples.push_back(machine.ring_sample(4, tokens));
  CostModel cost = machine.cost();
  const FitQuality quality = fit_compute(samples, cost);
  expect_coefficients(cost, machine, 1e-6);
  EXPECT_EQ(cost.ring_step_ns_per_token, 0);
  EXPECT_EQ(cost.ring_step_fixed_ns, 0);
  EXPECT_GT(quality.worst_abs_error, 1e-3) << "and the quality says so";
}

TEST(CostFit, NoiseMovesTheCoefficientsLittleAndShowsInTheQuality) {
  const RandomStream random(8, "noise");
  const Machine machine;
  std::vector<MicroBatchSample> samples;
  std::uint64_t draw = 0;
  for (const std::int64_t tokens : {64, 256, 1024, 4096, 16384}) {
    for (const std::int64_t count : {1, 2, 8, 16}) {
      samples.push_back(
          machine.sample(count, tokens / count, 0.97 + 0.06 * random.uniform(draw++)));
    }
  }
  CostModel cost = machine.cost();
  const FitQuality quality = fit_compute(samples, cost);
  expect_coefficients(cost, machine, 0.06);
  EXPECT_GT(quality.mean_abs_error, 0.003);
  EXPECT_LT(quality.worst_abs_error, 0.06);
}

TEST(CostFit, NeverGivesANegativeCoefficient) {
  // Times that fall with the fixed part: unconstrained, c would be below 0.
  std::vector<MicroBatchSample> samples;
  for (const std::int64_t tokens : {64, 512, 4096}) {
    const double t = static_cast<double>(tokens);
    samples.push_back({.tokens = Tokens(tokens),
                       .work = tokens * (tokens + 1) / 2,
                       .forward_s = 1e-6 * t - 3e-5,
                       .backward_s = 2e-6 * t});
  }
  CostModel cost;
  const FitQuality quality = fit_compute(samples, cost);
  EXPECT_GE(cost.attention_ns_per_pair, 0);
  EXPECT_GE(cost.linear_ns_per_token, 0);
  EXPECT_EQ(cost.fixed_ns, 0);
  EXPECT_GT(quality.worst_abs_error, 0.01);
}

TEST(CostFit, FindsAHopsTwoCoefficients) {
  std::vector<HopSample> samples;
  for (const std::int64_t tokens : {0, 1, 64, 1024, 16384}) {
    samples.push_back({Tokens(tokens), 2e-5 + 3e-7 * static_cast<double>(tokens)});
  }
  CostModel cost;
  EXPECT_LT(fit_hop(samples, cost).worst_abs_error, 1e-9);
  EXPECT_NEAR(cost.hop_fixed_ns, 2e4, 1e-3);
  EXPECT_NEAR(cost.hop_ns_per_token, 300, 1e-5);
}

TEST(CostFit, FindsAReductionsTwoCoefficients) {
  std::vector<ReductionSample> samples;
  for (const std::int64_t bytes : {1 << 12, 1 << 18, 1 << 24}) {
    samples.push_back({Bytes(bytes), 1e-4 + 8e-10 * static_cast<double>(bytes)});
  }
  CostModel cost;
  EXPECT_LT(fit_reduction(samples, cost).worst_abs_error, 1e-9);
  EXPECT_NEAR(cost.reduce_fixed_ns, 1e5, 1e-2);
  EXPECT_NEAR(cost.reduce_ns_per_byte, 0.8, 1e-8);
  EXPECT_THROW(fit_reduction(std::vector(3, samples.front()), cost), UserError);
}

TEST(CostFit, RefusesWhatCannotBeFitted) {
  const Machine machine;
  CostModel cost = machine.cost();
  EXPECT_THROW(fit_compute({}, cost), UserError);
  const std::vector<MicroBatchSample> alike(5, machine.sample(2, 64));
  EXPECT_THROW(fit_compute(alike, cost), UserError);
  auto broken = machine.grid();
  broken[1].forward_s = broken[1].backward_s = 0;
  EXPECT_THROW(fit_compute(broken, cost), UserError);
  broken[1].forward_s = std::nan("");
  EXPECT_THROW(fit_compute(broken, cost), UserError);
  EXPECT_THROW(fit_hop({}, cost), UserError);
  const std::vector<HopSample> one_size(3, HopSample{Tokens(64), 1e-4});
  EXPECT_THROW(fit_hop(one_size, cost), UserError);
}

TEST(CostFit, FindsTheSpreadOfRunsWhoseVarianceGrowsWithTheirTime) {
  constexpr double kSpreadS = 3e-4;
  const RandomStream random(7, "runs");
  std::vector<std::vector<double>> shapes;
  std::uint64_t drawn = 0;
  for (const double mean_s : {0.002, 0.05, 0.3}) {
    std::vector<double>& runs_s = shapes.emplace_back();
    for (int i = 0; i < 4000; ++i)
      runs_s.push_back(mean_s + std::sqrt(kSpreadS * mean_s) * random.normal(drawn++));
  }
  CostModel cost;
  fit_spread(shapes, cost);
  EXPECT_NEAR(cost.spread_ns, 1e9 * kSpreadS, 0.05 * 1e9 * kSpreadS) << "seed 7";
}

TEST(CostFit, TheSpreadOfAFewRunsIsNotTooSmallOnAverage) {
  // Mean 3, deviations -1 and 1: one free deviation, so 2 / 3 and not 1 / 3. Single runs say
  // nothing.
  CostModel cost;
  fit_spread(std::vector<std::vector<double>>{{2, 4}, {9}, {}}, cost);
  EXPECT_DOUBLE_EQ(cost.spread_ns, 1e9 * 2 / 3);
  fit_spread(std::vector<std::vector<double>>{{9}, {5, 5, 5}}, cost);
  EXPECT_EQ(cost.spread_ns, 0);
  fit_spread({}, cost);
  EXPECT_EQ(cost.spread_ns, 0);
  EXPECT_THROW(fit_spread(std::vector<std::vector<double>>{{0, 0}}, cost), UserError);
}

TEST(CostFit, WhatNoComputeHidesOfAHopIsPaidInEachStepOfARing) {
  CostModel cost;
  cost.ring_step_ns_per_token = 5;
  cost.ring_step_fixed_ns = 700;
  std::vector<HopSample> hops;
  for (const std::int64_t tokens : {64, 256, 4096})
    hops.push_back({.tokens = Tokens(tokens),
                    .seconds = 1e-9 * (40.0 * static_cast<double>(tokens) + 9000),
                    .unhidden_s = 1e-9 * (15.0 * static_cast<double>(tokens) + 2000)});
  fit_hop(hops, cost);
  EXPECT_NEAR(cost.hop_ns_per_token, 40, 1e-6);
  EXPECT_NEAR(cost.hop_fixed_ns, 9000, 1e-3);
  EXPECT_NEAR(cost.ring_step_ns_per_token, 5 + 15, 1e-6);
  EXPECT_NEAR(cost.ring_step_fixed_ns, 700 + 2000, 1e-3);
  for (HopSample& hop : hops) hop.unhidden_s = 0;
  fit_hop(hops, cost);
  EXPECT_NEAR(cost.ring_step_ns_per_token, 5 + 15, 1e-6)
      << "a link that compute hides adds nothing";
  hops[1].unhidden_s = 1.01 * hops[1].seconds;
  EXPECT_THROW(fit_hop(hops, cost), InternalError);
}

}  // namespace
}  // namespace weft
