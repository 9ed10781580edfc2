#include "comm/wait_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

namespace weft {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr CommClock::time_point kStart{};

PostLog log_of(std::int32_t num_posts) {
  PostLog log;
  const int data = 0;
  for (std::int32_t i = 0; i < num_posts; ++i) {
    const std::array sends{SendOp{Rank(2), &data, 4_B}, SendOp{Rank(3), &data, 4_B}};
    log.record(Channel::kRing, {.operation = "ring", .step = i}, sends, {}, kStart + seconds(i));
  }
  return log;
}

TEST(PostLog, KeepsTheLastSixteenPostsNewestFirst) {
  for (const std::int32_t num_posts : {0, 1, 2, 15, 16, 17, 32, 100}) {
    const auto posts = log_of(num_posts).newest_first(kStart + seconds(200));
    ASSERT_EQ(posts.size(), static_cast<std::size_t>(std::min(num_posts, 16)));
    for (std::size_t i = 0; i < posts.size(); ++i) {
      const std::int64_t step = num_posts - 1 - static_cast<std::int64_t>(i);
      EXPECT_EQ(posts[i].label, describe({.operation = "ring", .step = step}));
      EXPECT_EQ(posts[i].age, Nanoseconds((200 - step) * 1'000'000'000));
    }
  }
}

TEST(PostLog, APostShowsItsFirstPeerItsCountAndItsBytes) {
  const PostSummary post = log_of(1).newest_first(kStart).front();
  EXPECT_EQ(post.num_sends, 2);
  EXPECT_EQ(post.num_recvs, 0);
  EXPECT_EQ(post.first_send_to, Rank(2));
  EXPECT_EQ(post.send_bytes, 8_B);
}

class WaitReport : public testing::Test {
 protected:
  std::string report() const {
    const OpenTransfer transfer{Rank(0),
                                {.operation = "ring kv", .step = 3, .slot = 5},
                                Channel::kRing,
                                {{Rank(1), false, 2, 96_B}}};
    return timeout_report(transfer, 1'500'000'000_ns, seconds(1), [&](Rank rank) {
      return rank == Rank(0) ? self_ : activities_.at(rank);
    });
  }
  static RankActivity waiting_for(std::int32_t peer) {
    return {.waiting = true,
            .since = 2'000'000'000_ns,
            .wait_label = "ring kv (step 3)",
            .wait_channel = Channel::kRing,
            .outstanding = {{Rank(peer), true, 1, 8_B}}};
  }
  std::map<Rank, RankActivity> activities_;
  RankActivity self_{.waiting = true, .wait_label = "ring kv (step 3, slot 5)"};
};

TEST_F(WaitReport, FollowsTheChainToTheRankThatIsOutside) {
  activities_ = {{Rank(1), waiting_for(2)},
                 {Rank(2), waiting_for(3)},
                 {Rank(3), {.since = 5_ns, .posts = log_of(6).newest_first(kStart + seconds(7))}}};
  EXPECT_THAT(report(),
              AllOf(HasSubstr("rank 0 waited 1.50 s (limit 1.00 s) for rank 1 in \"ring kv (step "
                              "3, slot 5)\" on channel ring; outstanding: 2 receives from rank 1 "
                              "(96 B)."),
                    HasSubstr("Rank 2 has been waiting 2.00 s in \"ring kv (step 3)\""),
                    HasSubstr("Rank 3 has been outside comm"), HasSubstr("Look at rank 3:"),
                    HasSubstr("its last post was \"ring (step 5)\" on channel ring, 2 sends to "
                              "rank 2 and on (8 B), 2.00 s ago; before that \"ring (step 4)\""),
                    HasSubstr("\"ring (step 2)\""), Not(HasSubstr("\"ring (step 1)\""))));
}

TEST_F(WaitReport, ARankThatDoesNotAnswerIsTheOneToLookAt) {
  activities_ = {{Rank(1), waiting_for(2)}, {Rank(2), {.answered = false}}};
  EXPECT_THAT(report(),
              AllOf(HasSubstr("Rank 2 does not answer"), EndsWith("Look at rank 2: no answer.")));
}

TEST_F(WaitReport, AFinishedRankIsTheOneToLookAt) {
  activities_ = {{Rank(1), waiting_for(2)}, {Rank(2), {.finished = true}}};
  EXPECT_THAT(report(), AllOf(HasSubstr("Rank 2 has finished; it has posted nothing yet"),
                              HasSubstr("Look at rank 2: finished")));
}

TEST_F(WaitReport, ACycleIsCalledOne) {
  activities_ = {{Rank(1), waiting_for(2)}, {Rank(2), waiting_for(0)}};
  EXPECT_THAT(report(),
              AllOf(HasSubstr("All of these wait for one another"), Not(HasSubstr("Look at"))));
}

TEST_F(WaitReport, ARankThatHasGoneOnWithoutItsPartIsTheOneToLookAt) {
  RankActivity ahead = waiting_for(0);
  ahead.wait_label = "gradients (step 3)";
  ahead.posts.resize(2);
  ahead.posts[0].label = ahead.wait_label;
  ahead.posts[1].label = "ring kv (step 3, slot 5)";
  activities_ = {{Rank(1), ahead}};
  EXPECT_THAT(report(),
              EndsWith("Look at rank 1: it has gone on from \"ring kv (step 3, slot 5)\", "
                       "in which rank 0 still waits for it."));
  // The same seen from a rank that waits behind the other two.
  activities_ = {{Rank(1), waiting_for(2)}, {Rank(2), ahead}};
  activities_[Rank(2)].posts[1].label = "ring kv (step 3)";
  EXPECT_THAT(report(), HasSubstr("Look at rank 2: it has gone on"));
}

TEST_F(WaitReport, AWorldOfHundredsOfRanksStaysReadable) {
  for (std::int32_t rank = 1; rank < 300; ++rank) {
    activities_[Rank(rank)] = waiting_for(rank + 1);
  }
  EXPECT_THAT(report(), AllOf(HasSubstr("more ranks are involved"), Not(HasSubstr("Rank 9 "))));
  EXPECT_LT(report().size(), 3000U);
}

}  // namespace
}  // namespace weft
