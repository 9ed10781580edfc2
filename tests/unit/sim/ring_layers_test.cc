#include "sim/ring_layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "cost/micro_batch_time.h"

namespace weft {
namespace {

RingLayers uniform(std::size_t degree, std::int32_t layers, Nanoseconds block, Nanoseconds rest,
                   Nanoseconds hop) {
  return {.num_layers = layers,
          .block = std::vector<Nanoseconds>(degree, block),
          .rest = std::vector<Nanoseconds>(degree, rest),
          .hop = std::vector<Nanoseconds>(degree, hop)};
}

// What cost/micro_batch_time says of such a ring.
double formula(std::size_t degree, std::int32_t layers, double block, double rest, double hop) {
  CostModel cost;
  cost.num_layers = layers;
  cost.backward_ratio = 0;
  cost.fixed_ns = rest;
  cost.attention_ns_per_pair = block * static_cast<double>(degree);
  cost.hop_ns_per_token = hop;
  const RingShare share{.work = 1,
                        .tokens = Tokens(0),
                        .degree = static_cast<std::int32_t>(degree),
                        .largest_member = Tokens(1)};
  return static_cast<double>(micro_batch_time(cost, std::span(&share, 1), 1.0).value());
}

TEST(RingLayers, AUniformRingTakesExactlyWhatTheCostModelSays) {
  for (const std::size_t degree : {1, 2, 3, 7, 32}) {
    for (const std::int64_t hop : {0, 40, 100, 101, 700}) {
      const auto done = ring_layers_time(uniform(degree, 5, 100_ns, 30_ns, Nanoseconds(hop)));
      for (const Nanoseconds time : done) {
        EXPECT_EQ(time.value(), formula(degree, 5, 100, 30, static_cast<double>(hop)))
            << degree << " members, hop " << hop;
      }
    }
  }
}

TEST(RingLayers, ASlowLinkHoldsTheWholeRingAsTheSimulatorAssumes) {
  RingLayers ring = uniform(8, 32, 100_ns, 300_ns, 50_ns);
  ring.hop[3] = 500_ns;
  const auto done = ring_layers_time(ring);
  const double slowest_link = formula(8, 32, 100, 300, 500);
  const double latest = static_cast<double>(std::max_element(done.begin(), done.end())->value());
  // The assumption is on the slow side: it takes every hop for one over the slow link.
  EXPECT_LE(latest, slowest_link);
  EXPECT_GE(latest, 0.88 * slowest_link);
}

TEST(RingLayers, UnevenMembersEndNearTheSlowestOfThem) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStream random(seed, "members");
    const std::size_t degree = 2 + seed % 9;
    RingLayers ring = uniform(degree, 32, 0_ns, 0_ns, 90_us);
    double slowest = 0;
    for (std::size_t i = 0; i < degree; ++i) {
      const double block = 60e3 + 80e3 * random.uniform(2 * i);
      const double rest = 100e3 + 100e3 * random.uniform(2 * i + 1);
      ring.block[i] = Nanoseconds(static_cast<std::int64_t>(block));
      ring.rest[i] = Nanoseconds(static_cast<std::int64_t>(rest));
      slowest = std::max(slowest, formula(degree, 32, block, rest, 90e3));
    }
    const auto done = ring_layers_time(ring);
    const double latest = static_cast<double>(std::max_element(done.begin(), done.end())->value());
    EXPECT_GE(latest, 0.9 * slowest) << "a member waits for blocks, never computes faster";
    EXPECT_LE(latest, 1.25 * slowest) << "slow blocks and slow rests of different members add up";
  }
}

}  // namespace
}  // namespace weft
