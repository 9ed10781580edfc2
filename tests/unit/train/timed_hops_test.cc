#include "train/timed_hops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
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

// Rank 0 of two over a link whose time is made up.
class MadeUpLink : public Communicator {
 public:
  Rank rank() const override { return Rank(0); }
  std::int32_t size() const override { return 2; }
  std::string_view transport() const override { return "virtual"; }
  Handle exchange(Channel channel, const OpLabel&, std::span<const SendOp> sends,
                  std::span<const RecvOp>) override {
    if (channel == Channel::kRing) now_ += time_of(sends.front().bytes);
    return {};
  }
  void abort(std::string_view) noexcept override {}
  ChannelStats stats(Channel) const override { return {}; }
  std::chrono::nanoseconds wait_limit() const override { return std::chrono::seconds(1); }
  std::chrono::nanoseconds now() const override { return now_; }

 protected:
  // An empty message lets both ranks begin together.
  virtual std::chrono::nanoseconds time_of(Bytes bytes) = 0;

 private:
  std::chrono::nanoseconds now_{};
};

// 1 ms for whatever it carries, and 4 ms every third time.
class UnsteadyLink final : public MadeUpLink {
 protected:
  std::chrono::nanoseconds time_of(Bytes bytes) override {
    if (bytes == Bytes(0)) return {};
    return std::chrono::milliseconds(++num_hops_ % 3 == 0 ? 4 : 1);
  }

 private:
  int num_hops_ = 0;
};

// 1 us a byte, but the first 512 after a pause pass at once: a token bucket.
class BurstyLink final : public MadeUpLink {
 protected:
  std::chrono::nanoseconds time_of(Bytes bytes) override {
    if (bytes == Bytes(0)) left_ = Bytes(512);
    const Bytes free = std::min(left_, bytes);
    left_ -= free;
    return std::chrono::microseconds((bytes - free).value());
  }

 private:
  Bytes left_;
};

TEST(TimedHops, CountWhatALinkTakesOnAverage) {
  UnsteadyLink link;
  const auto hops = time_hops(link, Tokens(64), 16);
  ASSERT_EQ(hops.size(), 4U);
  for (const HopSample& hop : hops) EXPECT_NEAR(hop.seconds, 2e-3, 1e-12);
}

TEST(TimedHops, SmallOnesAreNotTakenForFasterBecauseALinkCarriesALittleAtOnce) {
  BurstyLink link;
  const auto hops = time_hops(link, Tokens(256), 16);
  ASSERT_EQ(hops.size(), 4U);
  for (const HopSample& hop : hops) {
    const double bytes = 16 * static_cast<double>(hop.tokens.value());
    EXPECT_NEAR(hop.seconds, 1e-6 * bytes * (4096 - 512) / 4096, 1e-12) << bytes << " bytes";
  }
}

TEST(TimedHops, OfOneToken) {
  run_thread_ranks({.num_ranks = 2}, [&](Communicator& comm) {
    EXPECT_EQ(time_hops(comm, Tokens(1), 16).size(), 1U);
  });
}

}  // namespace
}  // namespace weft
