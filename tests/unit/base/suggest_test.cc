#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

const std::vector<std::string> kKeys = {"learning_rate", "num_epochs", "weight_decay"};

TEST(Suggest, TheNearestKeyIsNamed) {
  EXPECT_EQ(nearest_name("learning_rat", kKeys), "learning_rate");
  EXPECT_EQ(nearest_name("num-epochs", kKeys), "num_epochs");
  EXPECT_EQ(nearest_name("wieght_decay", kKeys), "weight_decay");
  EXPECT_EQ(nearest_name("Weight_Decay", kKeys), "weight_decay");
}

TEST(Suggest, NothingIsNamedForAStranger) {
  EXPECT_EQ(nearest_name("zzzzzzzz", kKeys), std::nullopt);
  EXPECT_EQ(nearest_name("", kKeys), std::nullopt);
  EXPECT_EQ(nearest_name("a", std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace weft
