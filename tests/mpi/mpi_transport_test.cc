// What is particular to ranks that are processes. Every process runs these tests as its own rank
// and checks what that rank sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/collectives.h"
#include "comm/mpi/notice.h"
#include "comm/thread/thread_world.h"
#include "tests/mpi/mpi_test_session.h"

namespace weft {
namespace {

using mpi_transport::WorldSettings;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

using Body = std::function<void(Communicator&)>;

struct CustomError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Outcome {
  std::string text;  // what run_world threw on this rank; empty: nothing
  bool is_peer_failure = false, is_comm_error = false, is_custom = false;
};

Outcome run(const WorldSettings& settings, const Body& body) {
  try {
    run_world(test_session(), settings, body);
    return {};
  } catch (const PeerFailure& error) {
    return {.text = error.what(), .is_peer_failure = true, .is_comm_error = true};
  } catch (const CommError& error) {
    return {.text = error.what(), .is_comm_error = true};
  } catch (const CustomError& error) {
    return {.text = error.what(), .is_custom = true};
  } catch (const std::exception& error) {
    return {.text = error.what()};
  }
}

Outcome run(std::chrono::nanoseconds wait_limit, const Body& body) {
  return run(WorldSettings{.wait_limit = wait_limit}, body);
}

std::int32_t my_rank() { return test_session().rank(); }
std::int32_t num_ranks() { return test_session().size(); }

Handle send(Communicator& comm, std::int32_t to, const std::vector<int>& data,
            const OpLabel& label) {
  return comm.exchange(
      Channel::kRing, label,
      std::array{SendOp{Rank(to), data.data(),
                        Bytes(static_cast<std::int64_t>(data.size() * sizeof(int)))}},
      {});
}
Handle receive(Communicator& comm, std::int32_t from, std::vector<int>& data,
               const OpLabel& label) {
  return comm.exchange(
      Channel::kRing, label, {},
      std::array{RecvOp{Rank(from), data.data(),
                        Bytes(static_cast<std::int64_t>(data.size() * sizeof(int)))}});
}

constexpr auto kLong = seconds(60);  // longer than these tests are allowed to take
constexpr int kLarge = 500'000;      // ints: far above what MPI buffers

// The digest of what rank 0 holds after reductions whose bits depend on the order.
std::vector<std::uint32_t> reduce_in_order(Communicator& comm) {
  std::vector<std::uint32_t> bits;
  for (const std::size_t size : {0U, 1U, 2U, 1000U, 70'001U}) {
    const RandomStream random(7, "digest");
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto draw = random.below(static_cast<std::uint64_t>(comm.rank().value()) * 100'000 + i,
                                     1'000'000'007);
      values[i] = static_cast<float>(draw) * (draw % 2 == 0 ? 1e-7F : -1e3F);
    }
    all_reduce<float>(comm, values, ReduceOp::kSum, {.operation = "digest"});
    for (const float value : values) {
      std::uint32_t word = 0;
      std::memcpy(&word, &value, sizeof(word));
      bits.push_back(word);
    }
  }
  return bits;
}

TEST(MpiTransport, ReductionsAreBitEqualWithThoseOfThreads) {
  std::vector<std::uint32_t> processes, threads;
  run_world(test_session(), {}, [&](Communicator& comm) { processes = reduce_in_order(comm); });
  run_thread_ranks({.num_ranks = num_ranks()}, [&](Communicator& comm) {
    const auto bits = reduce_in_order(comm);
    if (comm.rank().value() == my_rank()) threads = bits;
  });
  EXPECT_EQ(processes.size(), 71'004U);
  EXPECT_TRUE(processes == threads);
}

TEST(MpiTransport, PiecesOfEverySizeArriveWhole) {
  for (const std::int64_t piece : {1, 7, 64, 100}) {
    const WorldSettings settings{.max_piece_bytes = piece};
    run_world(test_session(), settings, [piece](Communicator& comm) {
      const std::int32_t next = (my_rank() + 1) % num_ranks();
      const std::int32_t previous = (my_rank() + num_ranks() - 1) % num_ranks();
      for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, piece - 1, piece,
                                       piece + 1, 2 * piece - 1, 2 * piece, 3 * piece + 1}) {
        std::vector<unsigned char> outgoing(static_cast<std::size_t>(bytes)), incoming(outgoing);
        for (std::size_t i = 0; i < outgoing.size(); ++i) {
          outgoing[i] = static_cast<unsigned char>(my_rank() * 30 + static_cast<int>(i % 30));
        }
        comm.exchange(Channel::kRing, {.operation = "pieces", .step = bytes},
                      std::array{SendOp{Rank(next), outgoing.data(), Bytes(bytes)}},
                      std::array{RecvOp{Rank(previous), incoming.data(), Bytes(bytes)}})
            .wait();
        for (std::size_t i = 0; i < incoming.size(); ++i) {
          ASSERT_EQ(incoming[i], previous * 30 + static_cast<int>(i % 30)) << i << " of " << bytes;
        }
      }
    });
  }
}

// The current value of a setting of Open MPI; nullopt where it has no such setting.
std::optional<std::size_t> mpi_setting(const char* name) {
  int provided = 0, index = 0, count = 0;
  if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return std::nullopt;
  std::optional<std::size_t> value;
  MPI_T_cvar_handle handle = nullptr;
  std::size_t read = 0;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    if (MPI_T_cvar_read(handle, &read) == MPI_SUCCESS) value = read;
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value;
}

// Otherwise ranks that send to each other over TCP would take turns.
TEST(MpiTransport, NoPieceWaitsOverTcpUntilItsReceiverAsksForIt) {
  for (const char* const name :
       {"btl_tcp_eager_limit", "btl_tcp_rndv_eager_limit", "btl_tcp_max_send_size"}) {
    const auto limit = mpi_setting(name);
    if (!limit) GTEST_SKIP() << "this MPI has no " << name;
    constexpr std::int64_t kLargestHeader = 256;  // of Open MPI's own
    EXPECT_GE(static_cast<std::int64_t>(*limit), WorldSettings().max_piece_bytes + kLargestHeader)
        << name;
  }
}

TEST(MpiTransport, TenThousandGroupsNeedNoCommunicatorOfTheirOwn) {
  run_world(test_session(), {}, [](Communicator& comm) {
    const std::int32_t peer = num_ranks() - 1 - my_rank();
    std::vector<int> outgoing(3), incoming(3);
    for (std::int32_t step = 0; step < 10'000; ++step) {
      const OpLabel label{.operation = "group", .step = step, .group = step};
      outgoing[0] = step;
      Handle sent = send(comm, peer, outgoing, label);
      receive(comm, peer, incoming, label).wait();
      sent.wait();
      ASSERT_EQ(incoming[0], step);
    }
  });
}

TEST(MpiTransport, WithoutTheCheckingModeMessagesArriveAllTheSame) {
  const WorldSettings settings{.check_messages = false, .max_piece_bytes = 1000};
  run_world(test_session(), settings, [](Communicator& comm) {
    std::vector<float> values(5000, static_cast<float>(my_rank() + 1));
    all_reduce<float>(comm, values, ReduceOp::kSum, {.operation = "unchecked"});
    EXPECT_EQ(values[4999], static_cast<float>(num_ranks() * (num_ranks() + 1) / 2));
  });
}

TEST(MpiTransport, WithoutTheCheckingModeADifferentSizeFailsAtTheLimit) {
  if (num_ranks() < 2) GTEST_SKIP();
  for (const int wrong : {2, 4, 100'000}) {
    const WorldSettings settings{.wait_limit = milliseconds(700), .check_messages = false};
    const Outcome outcome = run(settings, [wrong](Communicator& comm) {
      std::vector<int> data(static_cast<std::size_t>(my_rank() == 0 ? wrong : 3));
      if (my_rank() == 0) send(comm, 1, data, {.operation = "sized"}).wait();
      if (my_rank() == 1) receive(comm, 0, data, {.operation = "sized"}).wait();
    });
    EXPECT_THAT(outcome.text, HasSubstr("sized"));
    EXPECT_TRUE(outcome.is_comm_error);
    if (wrong < 1000) {  // a small send is complete at once, so rank 1 is the one that waits
      EXPECT_THAT(outcome.text, AnyOf(HasSubstr("rank 0 has already finished"),
                                      HasSubstr(fmt::format("A message of {} B", wrong * 4))));
    }
  }
}

// Rank 0 waits for 1, 1 for 2 and so on; the last one is not where they need it.
TEST(MpiFault, ASleepingRankIsNamedThroughTheChainOfThoseWhoWait) {
  if (num_ranks() < 2) GTEST_SKIP();
  const std::int32_t last = num_ranks() - 1;
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run(seconds(2), [last](Communicator& comm) {
    std::vector<int> data(4);
    barrier(comm, {.operation = "warm up", .step = 2});
    const OpLabel label{.operation = "ring kv", .step = 3, .slot = 5, .layer = 0, .group = 1};
    if (my_rank() == last) {
      std::this_thread::sleep_for(milliseconds(2600));
    } else {
      receive(comm, my_rank() + 1, data, label).wait();
    }
    barrier(comm, {.operation = "end"});
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4));
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("waited 2.0"), HasSubstr("(limit 2.00 s)"),
                    HasSubstr("\"ring kv (step 3, slot 5, layer 0, group 1)\" on channel ring"),
                    HasSubstr("1 receive from rank"),
                    HasSubstr(fmt::format("Rank {} has been outside comm for", last)),
                    HasSubstr(fmt::format("Look at rank {}: outside comm", last)),
                    HasSubstr("its last post was \"warm up (step 2)\" on channel control")));
  EXPECT_TRUE(outcome.is_comm_error);
}

TEST(MpiFault, AReceiveNobodySendsTimesOutLikeACollective) {
  if (num_ranks() < 2) GTEST_SKIP();
  const Outcome outcome = run(seconds(1), [](Communicator& comm) {
    std::vector<int> data(16);
    if (my_rank() == 0) receive(comm, 1, data, {.operation = "lost", .step = 3}).wait();
    barrier(comm, {.operation = "end"});
  });
  // Those in the barrier wait for rank 0, which waits for rank 1, which waits for rank 0.
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("lost (step 3)"), HasSubstr("end"),
                                  HasSubstr("wait for one another")));
}

TEST(MpiFault, AFinishedRankIsReportedAtOnceInsteadOfAfterTheLimit) {
  if (num_ranks() < 2) GTEST_SKIP();
  for (const bool late : {false, true}) {
    const Outcome outcome = run(kLong, [late](Communicator& comm) {
      std::vector<int> data(3);
      if (my_rank() == 1) {
        if (late) std::this_thread::sleep_for(milliseconds(100));
        return;
      }
      receive(comm, 1, data, {.operation = "early exit", .step = 8}).wait();
    });
    EXPECT_THAT(outcome.text,
                AllOf(HasSubstr("waits for rank 1"), HasSubstr("rank 1 has already finished"),
                      HasSubstr("early exit (step 8)")));
    EXPECT_TRUE(my_rank() != 1 || outcome.is_peer_failure);
  }
}

TEST(MpiFault, ARankMayFinishWhenAllItOwesIsDone) {
  if (num_ranks() < 3) GTEST_SKIP();
  const Outcome outcome = run(kLong, [](Communicator& comm) {
    std::vector<int> data(20'000, my_rank());
    for (std::int32_t i = 0; i < 50; ++i) {
      if (my_rank() == 1) send(comm, 2, data, {.operation = "go on"}).wait();
      if (my_rank() == 2) receive(comm, 1, data, {.operation = "go on"}).wait();
    }
  });
  EXPECT_EQ(outcome.text, "");
}

TEST(MpiFault, TheRootCauseKeepsItsTypeAndTheOthersAreToldTheReason) {
  for (std::int32_t culprit = 0; culprit < num_ranks(); ++culprit) {
    const Outcome outcome = run(kLong, [culprit](Communicator& comm) {
      barrier(comm, {.operation = "start"});
      if (my_rank() == culprit) throw CustomError("disk full");
      try {
        barrier(comm, {.operation = "step"});
      } catch (const CommError& error) {
        EXPECT_EQ(std::string(error.what()), fmt::format("rank {} failed: disk full", culprit));
        throw std::logic_error("a consequence that must not win");
      }
    });
    EXPECT_EQ(outcome.is_custom, my_rank() == culprit) << outcome.text;
    EXPECT_EQ(outcome.is_peer_failure, my_rank() != culprit);
    if (my_rank() != culprit) {
      EXPECT_EQ(outcome.text, fmt::format("rank {} failed: disk full", culprit));
    }
  }
}

TEST(MpiFault, AllRanksThatFailAtOnceAgreeOnOneCause) {
  for (std::int32_t trial = 0; trial < 10; ++trial) {
    const Outcome outcome = run(kLong, [](Communicator& comm) {
      barrier(comm, {.operation = "start"});
      throw CustomError(fmt::format("struck {}", my_rank()));
    });
    std::int64_t is_root = outcome.is_custom ? 1 : 0;
    std::int64_t root = is_root != 0 ? my_rank() : -1;
    run_world(test_session(), {}, [&](Communicator& comm) {
      all_reduce<std::int64_t>(comm, std::span(&is_root, 1), ReduceOp::kSum, {.operation = "sum"});
      all_reduce<std::int64_t>(comm, std::span(&root, 1), ReduceOp::kMax, {.operation = "root"});
    });
    EXPECT_EQ(is_root, 1);
    EXPECT_THAT(outcome.text, HasSubstr(fmt::format("struck {}", root)));
  }
}

TEST(MpiFault, AnExceptionThatDropsLargeMessagesIsTheReasonNotTheDroppedHandle) {
  if (num_ranks() < 2) GTEST_SKIP();
  for (std::int32_t culprit = 0; culprit < num_ranks(); ++culprit) {
    const Outcome outcome = run(kLong, [culprit](Communicator& comm) {
      const std::int32_t next = (my_rank() + 1) % num_ranks();
      const std::int32_t previous = (my_rank() + num_ranks() - 1) % num_ranks();
      std::vector<int> incoming(kLarge);
      const auto outgoing = std::make_unique<std::vector<int>>(kLarge);
      const Handle received = receive(comm, previous, incoming, {.operation = "ring"});
      Handle sent = send(comm, next, *outgoing, {.operation = "ring"});
      if (my_rank() == culprit) throw CustomError("no memory left");
      sent.wait();
      barrier(comm, {.operation = "end"});
    });
    EXPECT_EQ(outcome.text, my_rank() == culprit
                                ? "no memory left"
                                : fmt::format("rank {} failed: no memory left", culprit));
  }
}

TEST(MpiFault, AHandleDroppedByACaughtExceptionEndsTheRankAtItsNextCall) {
  if (num_ranks() < 2) GTEST_SKIP();
  for (const bool calls_again : {true, false}) {
    const Outcome outcome = run(kLong, [calls_again](Communicator& comm) {
      std::vector<int> data(kLarge);
      if (my_rank() == 0) receive(comm, 1, data, {.operation = "lost"}).wait();
      if (my_rank() != 1) return;
      try {
        const Handle handle = send(comm, 1, data, {.operation = "dropped", .step = 4});
        throw std::runtime_error("swallowed");
      } catch (const std::runtime_error&) {
      }
      if (calls_again) send(comm, 0, data, {.operation = "lost"}).wait();
    });
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("rank 1"), HasSubstr("dropped (step 4)")));
    EXPECT_EQ(outcome.is_peer_failure, my_rank() != 1);
  }
}

TEST(MpiFault, AHandleDroppedWithoutAnExceptionEndsTheWorldAtOnce) {
  if (num_ranks() < 2) GTEST_SKIP();
  const Outcome outcome = run(kLong, [](Communicator& comm) {
    std::vector<int> data(kLarge);
    if (my_rank() == 1) {
      const Handle handle = send(comm, 0, data, {.operation = "forgotten", .step = 6});
      return;
    }
    barrier(comm, {.operation = "end"});
  });
  EXPECT_THAT(outcome.text, AllOf(StartsWith("rank 1 failed"), HasSubstr("forgotten (step 6)"),
                                  HasSubstr("1 send to rank 0 (2000000 B)")));
}

TEST(MpiFault, NoBufferIsTouchedAfterAWaitThatFailed) {
  if (num_ranks() < 2) GTEST_SKIP();
  const Outcome outcome = run(seconds(2), [](Communicator& comm) {
    barrier(comm, {.operation = "start"});
    std::vector<int> token(1);
    if (my_rank() == 0) {
      auto data = std::make_unique<std::vector<int>>(kLarge, 1);
      auto into = std::make_unique<std::vector<int>>(kLarge, 5);
      Handle received = receive(comm, 1, *into, {.operation = "gone"});
      send(comm, 1, token, {.operation = "waits from here on"}).wait();
      try {
        send(comm, 1, *data, {.operation = "gone"}).wait();
      } catch (const CommError&) {
        EXPECT_THROW(received.wait(), CommError);
        const std::vector<int> before = *into;
        std::this_thread::sleep_for(milliseconds(50));
        EXPECT_TRUE(*into == before);
        throw;
      }
      return;
    }
    if (my_rank() == 1) {
      receive(comm, 0, token, {.operation = "waits from here on"}).wait();
      // Too late, but within the time that a failed job waits for it.
      std::this_thread::sleep_for(milliseconds(2250));
    }
    std::vector<int> data(kLarge, 9);
    const std::int32_t peer = my_rank() == 1 ? 0 : my_rank();
    Handle sent = send(comm, peer, data, {.operation = "gone"});
    receive(comm, peer, data, {.operation = "gone"}).wait();
    sent.wait();
  });
  EXPECT_THAT(outcome.text, AnyOf(HasSubstr("gone"), HasSubstr("rank 0 failed")));
}

TEST(MpiFault, AMissedSendMakesTheNextMessageAMismatch) {
  if (num_ranks() < 2) GTEST_SKIP();
  const Outcome outcome = run(kLong, [](Communicator& comm) {
    std::vector<int> data(8);
    for (std::int32_t hop = 0; hop < 4; ++hop) {
      const OpLabel label{.operation = "ring", .hop = hop};
      if (my_rank() == 1) receive(comm, 0, data, label).wait();
      if (my_rank() == 0 && hop != 1) send(comm, 1, data, label).wait();
    }
    barrier(comm, {.operation = "end"});
  });
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("rank 0 sends 32 B for \"ring (hop 2)\""),
                                  HasSubstr("rank 1 expects 32 B for \"ring (hop 1)\"")));
}

TEST(MpiFault, ALargeMessageOfTheWrongSizeIsShownFromBothSides) {
  if (num_ranks() < 2) GTEST_SKIP();
  for (const int wrong : {kLarge - 1, kLarge + 1, 1, 2 * kLarge}) {
    const Outcome outcome =
        run({.wait_limit = kLong, .max_piece_bytes = 600'000}, [wrong](Communicator& comm) {
          std::vector<int> data(static_cast<std::size_t>(my_rank() == 0 ? wrong : kLarge));
          const OpLabel label{.operation = "large"};
          if (my_rank() == 0) send(comm, 1, data, label).wait();
          if (my_rank() == 1) receive(comm, 0, data, label).wait();
          barrier(comm, {.operation = "end"});
        });
    EXPECT_THAT(outcome.text, AllOf(HasSubstr(fmt::format("rank 0 sends {} B", wrong * 4L)),
                                    HasSubstr("rank 1 expects 2000000 B")));
  }
}

TEST(MpiFault, SomethingThrownThatIsNoExceptionIsRethrownAsItIs) {
  const auto body = [](Communicator& comm) {
    if (my_rank() == 0) throw 42;  // NOLINT
    barrier(comm, {.operation = "end"});
  };
  if (my_rank() == 0) {
    EXPECT_THROW(run_world(test_session(), {}, body), int);
  } else {
    EXPECT_THROW(run_world(test_session(), {}, body), PeerFailure);
  }
}

TEST(MpiFault, ARandomRankThatThrowsAtARandomPointEndsAll) {
  for (std::int32_t trial = 0; trial < 24; ++trial) {
    const std::int32_t size = num_ranks(), culprit = trial * 5 % size;
    const Outcome outcome = run(kLong, [=](Communicator& comm) {
      const std::size_t count = trial % 3 == 0 ? 30 : trial % 3 == 1 ? 3000 : 60'000;
      std::vector<std::vector<int>> rings(8, std::vector<int>(count));
      const std::vector<int> outgoing(count);
      std::vector<Handle> handles;
      for (std::int32_t hop = 0; hop < 8; ++hop) {
        const OpLabel label{.operation = "ring", .step = trial, .hop = hop};
        handles.push_back(send(comm, (my_rank() + 1) % size, outgoing, label));
        handles.push_back(receive(comm, (my_rank() + size - 1) % size,
                                  rings[static_cast<std::size_t>(hop)], label));
        if (my_rank() == culprit && hop == trial % 8) throw CustomError("struck");
        if (hop % 3 == 2) handles[static_cast<std::size_t>(2 * hop - 1)].wait();
      }
      for (Handle& handle : handles) handle.wait();
      barrier(comm, {.operation = "end"});
    });
    EXPECT_EQ(outcome.text,
              my_rank() == culprit ? "struck" : fmt::format("rank {} failed: struck", culprit))
        << "trial " << trial;
  }
}

TEST(MpiNotice, EveryKindComesBackAsItWasSent) {
  using namespace mpi_transport;  // NOLINT
  const Notice decision{.kind = NoticeKind::kDecision,
                        .failure = {.rank = Rank(3), .reason = "why", .final = false}};
  const Notice again = decode(encode(decision));
  EXPECT_EQ(again.failure.rank, Rank(3));
  EXPECT_EQ(again.failure.reason, "why");
  EXPECT_FALSE(again.failure.final);
  Notice reply{.kind = NoticeKind::kReply, .query = 9};
  reply.activity.waiting = true;
  reply.activity.outstanding = {{Rank(1), true, 2, 3_B}, {Rank(4), false, 5, 6_B}};
  reply.activity.posts.resize(2);
  reply.activity.posts[1].label = "second";
  const std::vector<std::byte> bytes = encode(reply);
  const Notice answer = decode(bytes);
  EXPECT_EQ(answer.query, 9);
  ASSERT_EQ(answer.activity.outstanding.size(), 2U);
  EXPECT_EQ(answer.activity.outstanding[1].bytes, 6_B);
  EXPECT_EQ(answer.activity.posts[1].label, "second");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode(std::span(bytes).first(size)), UserError) << size;
  }
}

}  // namespace
}  // namespace weft
