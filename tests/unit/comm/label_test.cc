#include <gtest/gtest.h>

#include "comm/communicator.h"

namespace weft {
namespace {

TEST(OpLabel, DescriptionShowsOnlyTheFieldsThatApply) {
  EXPECT_EQ(describe({.operation = "barrier"}), "barrier");
  EXPECT_EQ(describe({.operation = "norm", .step = 0}), "norm (step 0)");
  EXPECT_EQ(describe({.operation = "bucket", .step = 7, .hop = 2}), "bucket (step 7, hop 2)");
  EXPECT_EQ(
      describe(
          {.operation = "ring kv forward", .step = 3, .slot = 2, .layer = 0, .group = 1, .hop = 4}),
      "ring kv forward (step 3, slot 2, layer 0, group 1, hop 4)");
  EXPECT_EQ(describe({}), "unnamed operation");
}

TEST(OpLabel, LabelsAreEqualOnlyIfEveryFieldIs) {
  const OpLabel label{.operation = "a", .step = 1, .slot = 1, .layer = 1, .group = 1, .hop = 1};
  EXPECT_EQ(label, label);
  OpLabel other = label;
  other.operation = "b";
  EXPECT_NE(other, label);
  for (auto field : {&OpLabel::slot, &OpLabel::layer, &OpLabel::group, &OpLabel::hop}) {
    other = label;
    other.*field = 2;
    EXPECT_NE(other, label);
  }
}

TEST(Channel, EachChannelHasItsName) {
  EXPECT_EQ(channel_name(Channel::kRing), "ring");
  EXPECT_EQ(channel_name(Channel::kReduce), "reduce");
  EXPECT_EQ(channel_name(Channel::kControl), "control");
}

}  // namespace
}  // namespace weft
