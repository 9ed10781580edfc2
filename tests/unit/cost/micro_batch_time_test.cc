#include "cost/micro_batch_time.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "cost/reference_cost.h"

namespace weft {
namespace {

// One layer, no backward: small whole numbers that can be checked by hand.
CostModel hand_cost() {
  return {.name = "hand",
          .source = "test",
          .num_layers = 1,
          .attention_ns_per_pair = 2,
          .linear_ns_per_token = 10,
          .fixed_ns = 7,
          .hop_ns_per_token = 3,
          .hop_fixed_ns = 5,
          .backward_ratio = 0};
}

TEST(MicroBatchTime, WholeSequencesPayWorkAndTokensEachAndTheFixedCostOnce) {
  const std::vector<RingShare> shares{{.work = 10, .tokens = Tokens(4)},
                                      {.work = 3, .tokens = Tokens(2)}};
  EXPECT_EQ(micro_batch_time(hand_cost(), shares, 1.0), Nanoseconds(2 * 13 + 10 * 6 + 7));
  EXPECT_EQ(micro_batch_time(hand_cost(), {}, 1.0), Nanoseconds(7));
}

TEST(MicroBatchTime, AttentionOfAllButTheLastRingStepHidesTheExchange) {
  // 3 ranks: 2 hops of 5 + 3 * 4 = 17 ns; attention 2 * 9 = 18 ns, of which 2/3 = 12 ns hide.
  RingShare share{.work = 9, .tokens = Tokens(4), .degree = 3, .largest_member = Tokens(4)};
  EXPECT_EQ(exchange_ns(hand_cost(), 3, Tokens(4)), 34);
  EXPECT_EQ(exposed_exchange_ns(hand_cost(), share, 1.0), 22);
  EXPECT_EQ(micro_batch_time(hand_cost(), std::vector{share}, 1.0), Nanoseconds(18 + 40 + 7 + 22));
  share.work = 1000;
  EXPECT_EQ(exposed_exchange_ns(hand_cost(), share, 1.0), 0);
}

TEST(MicroBatchTime, ARingInsideANodePaysItsHops) {
  CostModel cost = hand_cost();
  RingShare share{.work = 9, .tokens = Tokens(4), .degree = 3, .largest_member = Tokens(4)};
  share.is_in_node = true;
  EXPECT_EQ(exposed_exchange_ns(cost, share, 1.0), 22) << "no price of its own";
  cost.node_hop_ns_per_token = 2;
  EXPECT_EQ(exchange_ns(cost, 3, Tokens(4), true), 2 * (5 + 2 * 4));
  EXPECT_EQ(exposed_exchange_ns(cost, share, 1.0), 26 - 12);
  EXPECT_EQ(micro_batch_time(cost, std::vector{share}, 1.0), Nanoseconds(18 + 40 + 7 + 14));
  cost.node_hop_fixed_ns = 0;
  EXPECT_EQ(exchange_ns(cost, 3, Tokens(4), true), 2 * 2 * 4);
  EXPECT_EQ(exchange_ns(cost, 3, Tokens(4), false), 34);
}

TEST(MicroBatchTime, FurtherRingStepsCostTheirOwnAndHideTheExchangeToo) {
  CostModel cost = hand_cost();
  cost.ring_step_ns_per_token = 4;
  cost.ring_step_fixed_ns = 11;
  const RingShare whole{.work = 9, .tokens = Tokens(4)};
  EXPECT_EQ(attention_ns(cost, whole), 18) << "no ring, no further steps";
  // 3 ranks: 2 further steps of 11 + 4 * 4 = 27 ns; 18 + 54 ns of attention hide 48 of 34 ns.
  const RingShare share{.work = 9, .tokens = Tokens(4), .degree = 3, .largest_member = Tokens(4)};
  EXPECT_EQ(attention_ns(cost, share), 18 + 54);
  EXPECT_EQ(exposed_exchange_ns(cost, share, 1.0), 0);
  EXPECT_EQ(exposed_exchange_ns(cost, share, 2.0), 34 - 24);
  EXPECT_EQ(micro_batch_time(cost, std::vector{share}, 1.0), Nanoseconds(18 + 54 + 40 + 7));
}

TEST(MicroBatchTime, OneSharesAttentionDoesNotHideAnothersExchange) {
  const RingShare heavy{.work = 1000, .tokens = Tokens(4)};
  const RingShare shared{.work = 0, .tokens = Tokens(1), .degree = 2, .largest_member = Tokens(1)};
  EXPECT_EQ(micro_batch_time(hand_cost(), std::vector{heavy, shared}, 1.0),
            Nanoseconds(2000 + 40 + 10 + 7 + 8));
}

TEST(MicroBatchTime, SpeedDividesComputeAndLeavesTheHopsAsTheyAre) {
  const RingShare share{.work = 9, .tokens = Tokens(4), .degree = 3, .largest_member = Tokens(4)};
  // Half as fast: attention 36 ns hides 24 of 34 ns.
  EXPECT_EQ(micro_batch_time(hand_cost(), std::vector{share}, 0.5),
            Nanoseconds(2 * (18 + 40 + 7) + 10));
}

TEST(MicroBatchTime, LayersAndBackwardMultiplyAndTheResultIsRoundedUp) {
  CostModel cost = hand_cost();
  cost.num_layers = 3;
  cost.backward_ratio = 2.5;
  EXPECT_EQ(all_layers(cost, 2), Nanoseconds(21));
  EXPECT_EQ(all_layers(cost, 1), Nanoseconds(11));
  EXPECT_EQ(all_layers(cost, 0), Nanoseconds(0));
  EXPECT_THROW(all_layers(cost, 1e19), UserError);
}

TEST(MicroBatchTime, ReferenceOfA312KSequenceOn39RanksLeavesASmallPartOfEachHopExposed) {
  // 39 ring steps, each half of a full block of pairs (causal): 1.4 ms, against 1.62 ms a hop.
  const CostModel cost = reference_cost_7b();
  const std::int64_t tokens = 312 * 1024;
  const RingShare share{.work = causal_work({0, tokens}) / 39,
                        .tokens = Tokens(8192),
                        .degree = 39,
                        .largest_member = Tokens(8192)};
  const double attention_ms = cost.attention_ns_per_pair * static_cast<double>(share.work) * 1e-6;
  EXPECT_NEAR(attention_ms, 39 * 1.4, 0.1);
  EXPECT_NEAR(exposed_exchange_ns(cost, share, 1.0) * 1e-6, 38 * 0.22, 0.1);
}

}  // namespace
}  // namespace weft
