#include "plan/slot_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "tests/support/random_plan.h"

namespace weft {
namespace {

// Only the order of slots matters here.
StepPlan plan_of_orders(std::int32_t num_slots,
                        const std::vector<std::vector<std::int32_t>>& orders) {
  StepPlan plan;
  plan.num_slots = num_slots;
  plan.num_ranks = static_cast<std::int32_t>(orders.size());
  for (const auto& order : orders) {
    auto& micro_batches = plan.ranks.emplace_back();
    for (const std::int32_t slot : order) {
      micro_batches.emplace_back().slot_idx = slot;
    }
  }
  return plan;
}

void expect_cycle_is_real(const StepPlan& plan, const std::vector<SlotEdge>& cycle) {
  ASSERT_FALSE(cycle.empty());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::int32_t next = cycle[(i + 1) % cycle.size()].slot_idx;
    const auto& micro_batches = plan.ranks.at(static_cast<std::size_t>(cycle[i].rank.value()));
    bool found = false;
    for (std::size_t m = 1; m < micro_batches.size(); ++m) {
      found |=
          micro_batches[m - 1].slot_idx == cycle[i].slot_idx && micro_batches[m].slot_idx == next;
    }
    EXPECT_TRUE(found) << "rank " << cycle[i].rank.value() << " does not run slot " << next
                       << " right after slot " << cycle[i].slot_idx;
  }
}

TEST(SlotOrder, AgreesWithEveryRank) {
  const StepPlan plan = plan_of_orders(5, {{4, 2}, {2, 0, 1}, {}, {4, 1}, {3}});
  const SlotOrder order = order_slots(plan);
  EXPECT_TRUE(order.cycle.empty());
  EXPECT_THAT(order.slots, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  const auto place = [&](std::int32_t slot) {
    return std::find(order.slots.begin(), order.slots.end(), slot) - order.slots.begin();
  };
  EXPECT_LT(place(4), place(2));
  EXPECT_LT(place(2), place(0));
  EXPECT_LT(place(0), place(1));
}

TEST(SlotOrder, NothingToOrderIsFine) {
  EXPECT_TRUE(order_slots(plan_of_orders(0, {})).slots.empty());
  EXPECT_TRUE(order_slots(plan_of_orders(0, {{}, {}})).slots.empty());
  EXPECT_EQ(order_slots(plan_of_orders(1, {{0}})).slots, std::vector<std::int32_t>{0});
}

TEST(SlotOrder, NamesTheCycleOfTwoRanksAndNothingElse) {
  // Slots 2 and 3 come after the cycle and wait for it, but are not part of it.
  const StepPlan plan = plan_of_orders(4, {{0, 1, 2}, {1, 0, 3}});
  const SlotOrder order = order_slots(plan);
  expect_cycle_is_real(plan, order.cycle);
  EXPECT_EQ(order.cycle.size(), 2U);
  EXPECT_THAT(describe_cycle(order.cycle),
              testing::AnyOf("slot 0 -(rank 0)-> slot 1 -(rank 1)-> slot 0",
                             "slot 1 -(rank 1)-> slot 0 -(rank 0)-> slot 1"));
}

TEST(SlotOrder, FindsACycleThroughManyRanksAndShortensItsText) {
  constexpr std::int32_t kSlots = 100;
  std::vector<std::vector<std::int32_t>> orders;
  for (std::int32_t s = 0; s < kSlots; ++s) orders.push_back({s, (s + 1) % kSlots});
  const StepPlan plan = plan_of_orders(kSlots, orders);
  const SlotOrder order = order_slots(plan);
  expect_cycle_is_real(plan, order.cycle);
  EXPECT_EQ(order.cycle.size(), 100U);
  EXPECT_THAT(describe_cycle(order.cycle), testing::HasSubstr("(92 more)"));
}

TEST(SlotOrder, RandomOrdersAreOrderedOrHaveARealCycle) {
  int num_cycles = 0, num_orders = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr std::int32_t kSlots = 6;
    const RandomStream random(seed, "slot orders");
    std::vector<std::vector<std::int32_t>> orders(3);
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      const Permutation shuffled(seed * 3 + rank, "slot order of a rank", kSlots);
      for (std::uint64_t i = 0; i < random.below(rank, kSlots); ++i) {
        orders[rank].push_back(static_cast<std::int32_t>(shuffled(i)));
      }
    }
    const StepPlan plan = plan_of_orders(kSlots, orders);
    const SlotOrder order = order_slots(plan);
    if (!order.cycle.empty()) {
      ++num_cycles;
      expect_cycle_is_real(plan, order.cycle);
      continue;
    }
    ++num_orders;
    ASSERT_EQ(order.slots.size(), static_cast<std::size_t>(kSlots));
    std::vector<std::ptrdiff_t> place(kSlots, -1);
    for (std::size_t i = 0; i < order.slots.size(); ++i) {
      place.at(static_cast<std::size_t>(order.slots[i])) = static_cast<std::ptrdiff_t>(i);
    }
    for (const auto& slots : orders) {
      for (std::size_t m = 1; m < slots.size(); ++m) {
        EXPECT_LT(place[static_cast<std::size_t>(slots[m - 1])],
                  place[static_cast<std::size_t>(slots[m])]);
      }
    }
  }
  EXPECT_GT(num_cycles, 20);
  EXPECT_GT(num_orders, 20);
}

}  // namespace
}  // namespace weft
