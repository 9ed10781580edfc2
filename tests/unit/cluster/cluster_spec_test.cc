#include "cluster/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace weft {
namespace {

TEST(ClusterSpec, RanksFillNodesInOrderAndTheLastNodeMayBePartial) {
  const ClusterSpec cluster = uniform_cluster(7, 3);
  EXPECT_EQ(cluster.num_nodes(), 3);
  EXPECT_EQ(cluster.node_of(Rank(0)), 0);
  EXPECT_EQ(cluster.node_of(Rank(2)), 0);
  EXPECT_EQ(cluster.node_of(Rank(3)), 1);
  EXPECT_EQ(cluster.node_of(Rank(6)), 2);
  EXPECT_EQ(uniform_cluster(1, 8).num_nodes(), 1);
}

TEST(ClusterSpec, SpeedsAreOneUnlessGiven) {
  ClusterSpec cluster = uniform_cluster(2, 1);
  EXPECT_EQ(cluster.speed_of(Rank(1)), 1.0);
  cluster.speed = {1.0, 0.5};
  EXPECT_NO_THROW(validate(cluster));
  EXPECT_EQ(cluster.speed_of(Rank(1)), 0.5);
}

TEST(ClusterSpec, RefusesCountsAndSpeedsThatMakeNoSense) {
  EXPECT_THROW(uniform_cluster(0, 1), UserError);
  EXPECT_THROW(uniform_cluster(1, 0), UserError);
  ClusterSpec cluster = uniform_cluster(2, 1);
  for (const std::vector<double>& speed : {std::vector<double>{1},
                                           {1, 0},
                                           {1, -1},
                                           {1, std::numeric_limits<double>::quiet_NaN()},
                                           {1, 1, 1}}) {
    cluster.speed = speed;
    EXPECT_THROW(validate(cluster), UserError);
  }
}

}  // namespace
}  // namespace weft
