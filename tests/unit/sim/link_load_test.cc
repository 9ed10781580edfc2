#include "sim/link_load.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr std::int64_t kWhole = LinkLoad::kWhole;

TEST(LinkLoad, ARingIsAsSlowAsItsMostCrowdedNode) {
  LinkLoad load(2, 4, 2);
  const std::vector<std::int32_t> wide{0, 1, 2};
  const std::vector<std::int32_t> narrow{2};
  load.add(0, wide, kWhole, 1);
  EXPECT_EQ(load.slowdown(0, wide), 1) << "alone";
  for (std::int64_t user = 2; user < 5; ++user) load.add(0, narrow, kWhole, user);
  EXPECT_EQ(load.slowdown(0, wide), 2) << "four rings where two have room";
  EXPECT_EQ(load.slowdown(0, std::vector<std::int32_t>{1}), 1);
  EXPECT_EQ(load.slowdown(1, wide), 1) << "another stage is elsewhere";
  std::vector<std::int64_t> users;
  load.users(0, narrow, users);
  EXPECT_EQ(users.size(), 4u);
  for (std::int64_t user = 2; user < 5; ++user) load.remove(0, narrow, kWhole, user);
  EXPECT_EQ(load.slowdown(0, wide), 1);
}

TEST(LinkLoad, RingsThatPauseWeighLess) {
  LinkLoad load(1, 1, 1);
  const std::vector<std::int32_t> node{0};
  load.add(0, node, kWhole / 2, 1);
  load.add(0, node, kWhole / 2, 2);
  EXPECT_EQ(load.slowdown(0, node), 1);
  load.add(0, node, kWhole / 4, 3);
  EXPECT_EQ(load.slowdown(0, node), 1.25);
}

TEST(LinkLoad, WithoutALimitNothingIsSlow) {
  const LinkLoad load(1, 1, 0);
  EXPECT_FALSE(load.is_limited());
  EXPECT_EQ(load.slowdown(0, std::vector<std::int32_t>{0}), 1);
}

}  // namespace
}  // namespace weft
