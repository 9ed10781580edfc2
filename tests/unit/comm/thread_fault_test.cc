// What happens when a rank fails, stops or strays: every rank ends, soon, and the report names the
// one to look at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "comm/thread/thread_world.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using Body = std::function<void(Communicator&)>;

constexpr milliseconds kShort{500};  // long enough for a loaded machine to start all ranks
constexpr milliseconds kLong =
    std::chrono::seconds(60);  // longer than the test's own limit allows to wait

SendOp send_op(std::int32_t to, const std::vector<int>& data) {
  return {Rank(to), data.data(), Bytes(static_cast<std::int64_t>(data.size() * sizeof(int)))};
}
RecvOp recv_op(std::int32_t from, std::vector<int>& data) {
  return {Rank(from), data.data(), Bytes(static_cast<std::int64_t>(data.size() * sizeof(int)))};
}
Handle send(Communicator& comm, std::int32_t to, const std::vector<int>& data,
            const OpLabel& label) {
  return comm.exchange(Channel::kRing, label, std::array{send_op(to, data)}, {});
}
Handle receive(Communicator& comm, std::int32_t from, std::vector<int>& data,
               const OpLabel& label) {
  return comm.exchange(Channel::kRing, label, {}, std::array{recv_op(from, data)});
}

struct Outcome {
  std::string root_cause;             // what run_thread_ranks threw; empty: nothing
  std::vector<std::string> per_rank;  // what each rank's body threw; empty: nothing
};

// A rank that is not where the others need it, until they have failed.
void sleep_until_failed(const std::atomic<std::int32_t>& num_failed, std::int32_t expected) {
  while (num_failed.load() < expected) std::this_thread::sleep_for(milliseconds(5));
}

// Joins all ranks, so a rank that never ends fails the test by its time limit.
Outcome run(std::int32_t num_ranks, milliseconds wait_limit, const Body& body,
            std::atomic<std::int32_t>* num_failed = nullptr) {
  Outcome outcome;
  outcome.per_rank.resize(static_cast<std::size_t>(num_ranks));
  try {
    run_thread_ranks({.num_ranks = num_ranks, .wait_limit = wait_limit}, [&](Communicator& comm) {
      try {
        body(comm);
      } catch (const std::exception& error) {
        outcome.per_rank[static_cast<std::size_t>(comm.rank().value())] = error.what();
        if (num_failed != nullptr) ++*num_failed;
        throw;
      }
    });
  } catch (const std::exception& error) {
    outcome.root_cause = error.what();
  }
  return outcome;
}

TEST(ThreadFault, AReceiveNobodySendsTimesOutWithTheWholeStory) {
  std::atomic<std::int32_t> num_failed = 0;
  const Outcome timeout = run(
      2, kShort,
      [&](Communicator& comm) {
        std::vector<int> data(16);
        barrier(comm, {.operation = "warm up", .step = 2});
        if (comm.rank() == Rank(0)) {
          receive(comm, 1, data,
                  {.operation = "ring kv forward",
                   .step = 3,
                   .slot = 5,
                   .layer = 0,
                   .group = 1,
                   .hop = 2})
              .wait();
        } else {
          sleep_until_failed(num_failed, 1);
        }
      },
      &num_failed);
  EXPECT_THAT(
      timeout.root_cause,
      AllOf(HasSubstr("rank 0 waited "), HasSubstr("(limit 500.00 ms)"), HasSubstr("for rank 1"),
            HasSubstr("\"ring kv forward (step 3, slot 5, layer 0, group 1, hop 2)\""),
            HasSubstr("channel ring"), HasSubstr("1 receive from rank 1 (64 B)"),
            HasSubstr("Rank 1 has been outside comm for"),
            HasSubstr("\"warm up (step 2)\" on channel control")));
}

TEST(ThreadFault, ASendNobodyReceivesTimesOutAndIsCalledASend) {
  std::atomic<std::int32_t> num_failed = 0;
  const Outcome outcome = run(
      3, kShort,
      [&](Communicator& comm) {
        std::vector<int> data(5);
        if (comm.rank() == Rank(0)) {
          std::vector<int> second(2);
          const std::array sends{send_op(1, data), send_op(2, data), send_op(2, second)};
          comm.exchange(Channel::kReduce, {.operation = "scatter"}, sends, {}).wait();
        } else {
          sleep_until_failed(num_failed, 1);
        }
      },
      &num_failed);
  EXPECT_THAT(outcome.root_cause,
              AllOf(HasSubstr("for ranks 1, 2 in"), HasSubstr("1 send to rank 1 (20 B)"),
                    HasSubstr("2 sends to rank 2 (28 B)"),
                    HasSubstr("Rank 1 is outside comm; it has posted nothing yet"),
                    Not(HasSubstr("receive"))));
}

TEST(ThreadFault, ASleepingRankIsNamedThroughTheChainOfThoseWhoWait) {
  // 0 waits for 1, 1 for 2, 2 for 3, 3 sleeps. Whoever reports first, rank 3 is in the report.
  std::atomic<std::int32_t> num_failed = 0;
  const Outcome outcome = run(
      4, kShort,
      [&](Communicator& comm) {
        std::vector<int> data(4);
        const std::int32_t me = comm.rank().value();
        if (me == 3) {
          sleep_until_failed(num_failed, 3);
        } else {
          receive(comm, me + 1, data, {.operation = "chain"}).wait();
          if (me > 0) send(comm, me - 1, data, {.operation = "chain"}).wait();
        }
        barrier(comm, {.operation = "end"});
      },
      &num_failed);
  EXPECT_THAT(outcome.root_cause, HasSubstr("Rank 3 is outside comm"));
  EXPECT_THAT(outcome.per_rank, Each(HasSubstr("Rank 3 is outside comm")));
}

TEST(ThreadFault, ARankThatOversleepsInACollectiveIsNamed) {
  for (std::int32_t sleeper = 0; sleeper < 3; ++sleeper) {
    std::atomic<std::int32_t> num_failed = 0;
    const Outcome outcome = run(
        3, kShort,
        [&](Communicator& comm) {
          std::vector<float> values(100, 1.0F);
          all_reduce<float>(comm, values, ReduceOp::kSum, {.operation = "first", .step = 1});
          if (comm.rank().value() == sleeper) sleep_until_failed(num_failed, 2);
          all_reduce<float>(comm, values, ReduceOp::kSum, {.operation = "second", .step = 1});
        },
        &num_failed);
    const std::string named = fmt::format("Rank {} has been outside comm", sleeper);
    EXPECT_THAT(outcome.per_rank, Each(AllOf(HasSubstr(named), HasSubstr("second (step 1)"))));
  }
}

TEST(ThreadFault, TwoRanksThatWaitForEachOtherAreShownWaiting) {
  const Outcome outcome = run(2, kShort, [](Communicator& comm) {
    std::vector<int> data(1);
    const OpLabel label{.operation = "cycle", .hop = comm.rank().value()};
    receive(comm, 1 - comm.rank().value(), data, label).wait();
  });
  EXPECT_THAT(outcome.root_cause, AllOf(HasSubstr("cycle (hop 0)"), HasSubstr("cycle (hop 1)"),
                                        HasSubstr("has been waiting")));
}

TEST(ThreadFault, AFinishedRankIsReportedAtOnceInsteadOfAfterTheLimit) {
  for (const bool late : {false, true}) {
    const Outcome outcome = run(3, kLong, [late](Communicator& comm) {
      std::vector<int> data(3);
      if (comm.rank() == Rank(1)) {
        if (late) std::this_thread::sleep_for(milliseconds(50));  // after the others began to wait
        return;
      }
      receive(comm, 1, data, {.operation = "early exit", .step = 8}).wait();
    });
    EXPECT_THAT(outcome.root_cause,
                AllOf(HasSubstr("waits for rank 1"), HasSubstr("rank 1 has already finished"),
                      HasSubstr("early exit (step 8)")));
    EXPECT_THAT(outcome.per_rank[0], HasSubstr("rank 1 has already finished"));
    EXPECT_THAT(outcome.per_rank[2], HasSubstr("rank 1 has already finished"));
    EXPECT_EQ(outcome.per_rank[1], "");
  }
}

TEST(ThreadFault, ARankMayFinishWhenAllItOwesIsDone) {
  const Outcome outcome = run(3, kLong, [](Communicator& comm) {
    std::vector<int> data(20'000, comm.rank().value());
    if (comm.rank() == Rank(0)) return;
    const std::int32_t peer = 3 - comm.rank().value();
    for (std::int32_t i = 0; i < 50; ++i) {
      if (comm.rank() == Rank(1)) {
        send(comm, peer, data, {.operation = "go on"}).wait();
      } else {
        receive(comm, peer, data, {.operation = "go on"}).wait();
      }
    }
  });
  EXPECT_EQ(outcome.root_cause, "");
}

struct CustomError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(ThreadFault, TheRootCauseKeepsItsTypeAndTheOthersAreToldTheReason) {
  for (std::int32_t culprit = 0; culprit < 4; ++culprit) {
    std::vector<std::string> others(4);
    const auto body = [&](Communicator& comm) {
      if (comm.rank().value() == culprit) throw CustomError("disk full");
      try {
        barrier(comm, {.operation = "step"});
      } catch (const CommError& error) {
        others[static_cast<std::size_t>(comm.rank().value())] = error.what();
        throw std::logic_error("a consequence that must not win");
      }
    };
    EXPECT_THROW(run_thread_ranks({.num_ranks = 4, .wait_limit = kLong}, body), CustomError);
    others[static_cast<std::size_t>(culprit)] = fmt::format("rank {} failed: disk full", culprit);
    EXPECT_THAT(others, Each(fmt::format("rank {} failed: disk full", culprit)));
  }
}

TEST(ThreadFault, AnExceptionInTheMiddleOfAnExchangeIsTheReasonNotTheDroppedHandle) {
  const Outcome outcome = run(3, kLong, [](Communicator& comm) {
    std::vector<int> data(5000);
    const std::int32_t next = (comm.rank().value() + 1) % 3;
    const std::int32_t previous = (comm.rank().value() + 2) % 3;
    const Handle received = receive(comm, previous, data, {.operation = "ring"});
    if (comm.rank() == Rank(1)) throw std::runtime_error("no memory left");
    const std::vector<int> outgoing(5000);
    send(comm, next, outgoing, {.operation = "ring"}).wait();
    barrier(comm, {.operation = "end"});
  });
  EXPECT_EQ(outcome.root_cause, "no memory left");
  EXPECT_EQ(outcome.per_rank[0], "rank 1 failed: no memory left");
  EXPECT_EQ(outcome.per_rank[2], "rank 1 failed: no memory left");
}

// Stops an exception on its way until the other rank has posted.
struct WaitWhileUnwinding {
  std::atomic<bool>& reached;
  const std::atomic<bool>& posted;
  ~WaitWhileUnwinding() {
    reached = true;
    while (!posted) std::this_thread::sleep_for(milliseconds(1));
  }
};

TEST(ThreadFault, ALaterMessageNeverTakesThePlaceOfADroppedOne) {
  std::atomic<bool> first_dropped = false, posted = false;
  const Outcome outcome = run(2, kLong, [&](Communicator& comm) {
    std::vector<int> data(3);
    const OpLabel first{.operation = "first"}, second{.operation = "second"};
    if (comm.rank() == Rank(0)) {
      while (!first_dropped) std::this_thread::sleep_for(milliseconds(1));
      Handle handle;
      try {
        handle = receive(comm, 1, data, first);  // would meet "second"
      } catch (const CommError& error) {
        ADD_FAILURE() << error.what();
      }
      posted = true;
      handle.wait();
      return;
    }
    Handle early = send(comm, 0, data, first);
    const Handle late = send(comm, 0, data, second);
    const WaitWhileUnwinding pause{first_dropped, posted};
    const Handle dropped_first = std::move(early);
    throw CustomError("the real reason");
  });
  EXPECT_EQ(outcome.root_cause, "the real reason");
  EXPECT_EQ(outcome.per_rank[0], "rank 1 failed: the real reason");
}

TEST(ThreadFault, AHandleDroppedByACaughtExceptionEndsTheRankAtItsNextCall) {
  for (const bool calls_again : {true, false}) {
    const Outcome outcome = run(2, kLong, [calls_again](Communicator& comm) {
      std::vector<int> data(3);
      if (comm.rank() == Rank(0)) {
        receive(comm, 1, data, {.operation = "lost"}).wait();
        return;
      }
      try {
        const Handle handle = send(comm, 1, data, {.operation = "dropped", .step = 4});
        throw std::runtime_error("swallowed");
      } catch (const std::runtime_error&) {
      }
      if (calls_again) send(comm, 0, data, {.operation = "lost"}).wait();
    });
    EXPECT_THAT(outcome.root_cause, AllOf(HasSubstr("rank 1"), HasSubstr("dropped (step 4)")));
    EXPECT_THAT(outcome.per_rank[0], HasSubstr("dropped (step 4)"));
  }
}

TEST(ThreadFault, AHandleDroppedWithoutAnExceptionEndsTheWorldAtOnce) {
  const Outcome outcome = run(2, kLong, [](Communicator& comm) {
    std::vector<int> data(3);
    if (comm.rank() == Rank(1)) {
      {
        const Handle handle = send(comm, 0, data, {.operation = "forgotten", .step = 6});
      }
      std::this_thread::sleep_for(milliseconds(20));
      return;
    }
    std::this_thread::sleep_for(milliseconds(40));
    receive(comm, 1, data, {.operation = "forgotten", .step = 6}).wait();
  });
  EXPECT_THAT(outcome.root_cause,
              AllOf(StartsWith("rank 1 failed"), HasSubstr("forgotten (step 6)"),
                    HasSubstr("without wait()"), HasSubstr("1 send to rank 0 (12 B)")));
  EXPECT_EQ(outcome.per_rank[0], outcome.root_cause);
}

TEST(ThreadFault, AHandleDroppedAfterItsMessagesArrivedIsHarmless) {
  const Outcome outcome = run(1, kLong, [](Communicator& comm) {
    std::vector<int> from(3, 7), to(3);
    const auto sent = comm.exchange(Channel::kRing, {.operation = "self"},
                                    std::array{send_op(0, from)}, std::array{recv_op(0, to)});
    EXPECT_EQ(to, from);
  });
  EXPECT_EQ(outcome.root_cause, "");
}

TEST(ThreadFault, NoBufferIsTouchedAfterAWaitThatFailed) {
  // Rank 0's buffer dies with the exception; rank 1 posts the matching receive only later.
  std::atomic<std::int32_t> num_failed = 0;
  const Outcome outcome = run(
      2, kShort,
      [&](Communicator& comm) {
        if (comm.rank() == Rank(0)) {
          const auto data = std::make_unique<std::vector<int>>(100'000, 1);
          send(comm, 1, *data, {.operation = "gone"}).wait();
        } else {
          sleep_until_failed(num_failed, 1);
          std::vector<int> data(100'000);
          receive(comm, 0, data, {.operation = "gone"}).wait();
        }
      },
      &num_failed);
  EXPECT_THAT(outcome.per_rank[1], AllOf(StartsWith("rank 0 failed"), HasSubstr("gone")));
}

TEST(ThreadFault, AMissedSendMakesTheNextMessageAMismatch) {
  const Outcome outcome = run(2, kLong, [](Communicator& comm) {
    std::vector<int> data(8);
    for (std::int32_t hop = 0; hop < 4; ++hop) {
      const OpLabel label{.operation = "ring", .hop = hop};
      if (comm.rank() == Rank(1)) receive(comm, 0, data, label).wait();
      if (comm.rank() == Rank(0) && hop != 1) send(comm, 1, data, label).wait();
    }
  });
  EXPECT_THAT(outcome.root_cause, AllOf(HasSubstr("rank 0 sends 32 B for \"ring (hop 2)\""),
                                        HasSubstr("rank 1 expects 32 B for \"ring (hop 1)\"")));
}

TEST(ThreadFault, AMismatchInsideALargeExchangeEndsAllRanks) {
  const Outcome outcome = run(4, kLong, [](Communicator& comm) {
    std::vector<std::vector<int>> outgoing, incoming;
    std::vector<SendOp> sends;
    std::vector<RecvOp> recvs;
    for (std::int32_t peer = 0; peer < 4; ++peer) {
      const bool wrong = comm.rank() == Rank(2) && peer == 3;
      outgoing.emplace_back(wrong ? 30'001 : 30'000);
      incoming.emplace_back(30'000);
    }
    for (std::int32_t peer = 0; peer < 4; ++peer) {
      sends.push_back(send_op(peer, outgoing[static_cast<std::size_t>(peer)]));
      recvs.push_back(recv_op(peer, incoming[static_cast<std::size_t>(peer)]));
    }
    comm.exchange(Channel::kRing, {.operation = "all"}, sends, recvs).wait();
    barrier(comm, {.operation = "end"});
  });
  EXPECT_THAT(outcome.per_rank, Each(AllOf(HasSubstr("rank 2 sends 120004 B"),
                                           HasSubstr("rank 3 expects 120000 B"))));
}

TEST(ThreadFault, ABodyThatAbortsAndReturnsStillFailsTheRun) {
  const Outcome outcome = run(2, kLong, [](Communicator& comm) {
    if (comm.rank() == Rank(1)) comm.abort("asked to stop");
  });
  EXPECT_EQ(outcome.root_cause, "rank 1 failed: asked to stop");
}

TEST(ThreadFault, SomethingThrownThatIsNoExceptionIsRethrownAsItIs) {
  const auto body = [](Communicator& comm) {
    if (comm.rank() == Rank(1)) throw 42;  // NOLINT
    barrier(comm, {.operation = "end"});
  };
  EXPECT_THROW(run_thread_ranks({.num_ranks = 2, .wait_limit = kLong}, body), int);
}

TEST(ThreadFault, ARandomRankThatThrowsAtARandomPointEndsAll) {
  for (std::int32_t trial = 0; trial < 40; ++trial) {
    const std::int32_t num_ranks = 2 + trial % 7, culprit = trial * 5 % num_ranks;
    const Outcome outcome = run(num_ranks, kLong, [&](Communicator& comm) {
      std::vector<std::vector<int>> rings(8, std::vector<int>(3000));
      std::vector<int> outgoing(3000);
      std::vector<Handle> handles;
      const std::int32_t me = comm.rank().value();
      for (std::int32_t hop = 0; hop < 8; ++hop) {
        const OpLabel label{.operation = "ring", .step = trial, .hop = hop};
        const std::array sends{send_op((me + 1) % num_ranks, outgoing)};
        const std::array recvs{
            recv_op((me + num_ranks - 1) % num_ranks, rings[static_cast<std::size_t>(hop)])};
        handles.push_back(comm.exchange(Channel::kRing, label, sends, recvs));
        if (me == culprit && hop == trial % 8) throw CustomError("struck");
        if (hop % 3 == 2) handles[static_cast<std::size_t>(hop - 1)].wait();
      }
      for (Handle& handle : handles) handle.wait();
      barrier(comm, {.operation = "end"});
    });
    EXPECT_EQ(outcome.root_cause, "struck");
    for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
      const std::string expected =
          rank == culprit ? "struck" : fmt::format("rank {} failed: struck", culprit);
      EXPECT_EQ(outcome.per_rank[static_cast<std::size_t>(rank)], expected) << "trial " << trial;
    }
  }
}

TEST(ThreadFault, WrongArgumentsAreRefusedBeforeAnythingIsPosted) {
  const OpLabel label{.operation = "bad"};
  std::vector<int> data(2);
  const std::vector<std::vector<SendOp>> bad_sends{{{Rank(1), data.data(), 8_B}},
                                                   {{Rank(-1), data.data(), 8_B}},
                                                   {{Rank(0), nullptr, 8_B}},
                                                   {{Rank(0), data.data(), Bytes(-1)}}};
  for (const auto& sends : bad_sends) {
    EXPECT_THROW(run_thread_ranks({.num_ranks = 1},
                                  [&](Communicator& comm) {
                                    comm.exchange(Channel::kRing, label, sends, {}).wait();
                                  }),
                 InternalError);
  }
  const Body nothing = [](Communicator&) {};
  EXPECT_THROW(run_thread_ranks({.num_ranks = 0}, nothing), UserError);
  EXPECT_THROW(run_thread_ranks({.num_ranks = 1, .wait_limit = milliseconds(0)}, nothing),
               UserError);
  run_thread_ranks({.num_ranks = 2, .wait_limit = std::chrono::nanoseconds::max()},
                   [](Communicator& comm) { barrier(comm, {.operation = "far limit"}); });
}

}  // namespace
}  // namespace weft
