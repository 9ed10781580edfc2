#include "train/timed_hops.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/thread/thread_world.h"

namespace weft {
namespace {

TEST(TimedHops, AreOfFallingSizesAndNoMoreIsLeftBesideComputeThanAlone) {
  for (const std::int32_t ranks : {2, 3}) {
    std::vector<std::vector<HopSample>> found(static_cast<std::size_t>(ranks));
    run_thread_ranks({.num_ranks = ranks}, [&](Communicator& comm) {
      found[static_cast<std::size_t>(comm.rank().value())] = time_hops(comm, Tokens(1000), 16);
    });
    for (std::size_t rank = 0; rank < found.size(); ++rank) {
      std::vector<std::int64_t> tokens;
      for (const HopSample& hop : found[rank]) {
        tokens.push_back(hop.tokens.value());
        EXPECT_GT(hop.seconds, 0);
        EXPECT_GE(hop.unhidden_s, 0);
        EXPECT_LE(hop.unhidden_s, hop.seconds);
      }
      const std::vector<std::int64_t> sizes{1000, 250, 62, 15};
      EXPECT_EQ(tokens, rank < 2 ? sizes : std::vector<std::int64_t>{}) << "rank " << rank;
    }
  }
}

TEST(TimedHops, OfOneToken) {
  run_thread_ranks({.num_ranks = 2}, [&](Communicator& comm) {
    EXPECT_EQ(time_hops(comm, Tokens(1), 16).size(), 1U);
  });
}

}  // namespace
}  // namespace weft
