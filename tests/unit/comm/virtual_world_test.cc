#include "comm/virtual/virtual_world.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"
#include "comm/collectives.h"
#include "machine/one_core.h"
#include "tests/support/comm_conformance.h"

namespace weft {
namespace {

INSTANTIATE_TEST_SUITE_P(Virtual, CommConformance,
                         testing::Values(TransportUnderTest{
                             .name = "Virtual",
                             .rank_counts = {1, 2, 3, 4, 5, 7, 8},
                             .run = [](std::int32_t num_ranks, std::chrono::nanoseconds wait_limit,
                                       const std::function<void(Communicator&)>& body) {
                               run_virtual_ranks({.num_ranks = num_ranks,
                                                  .link = {.bytes_per_second = 1e9,
                                                           .latency = std::chrono::seconds(1)},
                                                  .wait_limit = wait_limit},
                                                 body);
                             }}));

using namespace std::chrono_literals;

// Bandwidth and latency beside which the CPU time of a test's few lines is small.
constexpr VirtualLink kSlowLink{.bytes_per_second = 1e6, .latency = 1s};
constexpr double kCpuSlack_s = 0.2;

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void send_and_receive(Communicator& comm, Rank to, Rank from, std::span<std::byte> buffer) {
  std::vector<std::byte> leaving(buffer.size());
  const Bytes bytes(static_cast<std::int64_t>(buffer.size()));
  const SendOp send{to, leaving.data(), bytes};
  const RecvOp recv{from, buffer.data(), bytes};
  comm.exchange(Channel::kRing, {.operation = "test"}, {&send, 1}, {&recv, 1}).wait();
}

// Keeps the thread's core for so long.
void compute(std::chrono::nanoseconds cpu_time, const Communicator& comm) {
  const auto end = comm.now() + cpu_time;
  while (comm.now() < end) {
  }
}

// Cores that others share differ in speed: here by a quarter, for minutes.
TEST(VirtualRanks, AllRanksComputeOnOneCoreAlsoAfterTheyWaited) {
  std::vector<std::set<int>> cores(7);
  run_virtual_ranks({.num_ranks = 7, .link = kSlowLink}, [&](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      compute(1ms, comm);
      cores[static_cast<std::size_t>(comm.rank().value())].insert(current_core());
      barrier(comm, {.operation = "test", .hop = round});
    }
  });
  for (const std::set<int>& of_rank : cores) {
    EXPECT_EQ(of_rank.size(), 1U);
    EXPECT_EQ(of_rank, cores.front());
  }
}

TEST(VirtualRanks, AMessageTakesLatencyAndItsBytesOverTheBandwidth) {
  run_virtual_ranks({.num_ranks = 2, .link = kSlowLink}, [](Communicator& comm) {
    std::vector<std::byte> buffer(2'000'000);
    const Rank other(1 - comm.rank().value());
    send_and_receive(comm, other, other, buffer);
    EXPECT_NEAR(seconds_of(comm.now()), 1 + 2, kCpuSlack_s);
    EXPECT_NEAR(1e-9 * static_cast<double>(comm.stats(Channel::kRing).blocked.value()), 3,
                kCpuSlack_s);
  });
}

TEST(VirtualRanks, MessagesOfARankShareItsOneLink) {
  run_virtual_ranks({.num_ranks = 3, .link = kSlowLink}, [](Communicator& comm) {
    if (comm.rank() != Rank(0)) {
      std::vector<std::byte> buffer(1'000'000);
      const RecvOp recv{Rank(0), buffer.data(), Bytes(1'000'000)};
      comm.exchange(Channel::kReduce, {.operation = "test"}, {}, {&recv, 1}).wait();
      EXPECT_NEAR(seconds_of(comm.now()), 1 + comm.rank().value(), kCpuSlack_s);
      return;
    }
    const std::vector<std::byte> leaving(1'000'000);
    const std::array sends{SendOp{Rank(1), leaving.data(), Bytes(1'000'000)},
                           SendOp{Rank(2), leaving.data(), Bytes(1'000'000)}};
    comm.exchange(Channel::kReduce, {.operation = "test"}, sends, {}).wait();
    EXPECT_NEAR(seconds_of(comm.now()), 2, kCpuSlack_s) << "one after the other";
  });
}

TEST(VirtualRanks, ARingOfNHopsTakesNHopsHoweverFewCoresThereAre) {
  for (const std::int32_t num_ranks : {1, 2, 3, 7}) {
    run_virtual_ranks({.num_ranks = num_ranks, .link = kSlowLink}, [&](Communicator& comm) {
      std::vector<std::byte> buffer(500'000);
      const auto self = comm.rank().value();
      for (std::int32_t hop = 0; hop < num_ranks; ++hop) {
        send_and_receive(comm, Rank((self + 1) % num_ranks),
                         Rank((self + num_ranks - 1) % num_ranks), buffer);
      }
      const double expected = num_ranks == 1 ? 0 : 1.5 * num_ranks;  // to oneself it is free
      EXPECT_NEAR(seconds_of(comm.now()), expected, kCpuSlack_s);
    });
  }
}

TEST(VirtualRanks, ComputeHidesAMessageAndAMessageWaitsForItsSender) {
  run_virtual_ranks({.num_ranks = 2, .link = {.bytes_per_second = 1e9, .latency = 100ms}},
                    [](Communicator& comm) {
                      std::byte out{}, in{};
                      const Rank other(1 - comm.rank().value());
                      const SendOp send{other, &out, 1_B};
                      const RecvOp recv{other, &in, 1_B};
                      const bool late = comm.rank() == Rank(1);
                      if (late) compute(300ms, comm);
                      Handle handle = comm.exchange(Channel::kRing, {.operation = "test"},
                                                    {&send, 1}, {&recv, 1});
                      if (late) compute(200ms, comm);
                      handle.wait();
                      const double blocked_s =
                          1e-9 * static_cast<double>(comm.stats(Channel::kRing).blocked.value());
                      // Rank 1 computes through the arrival of rank 0's message; rank 0 waits for
                      // rank 1's.
                      EXPECT_NEAR(blocked_s, late ? 0 : 0.4, 0.05);
                      EXPECT_NEAR(seconds_of(comm.now()), late ? 0.5 : 0.4, 0.08);
                    });
}

TEST(VirtualRanks, RanksComputeAsIfEachHadACore) {
  constexpr std::int32_t kRanks = 5;
  run_virtual_ranks({.num_ranks = kRanks, .link = {.bytes_per_second = 1e12, .latency = 0ns}},
                    [](Communicator& comm) {
                      compute(50ms * (1 + comm.rank().value()), comm);
                      barrier(comm, {.operation = "end"});
                      EXPECT_NEAR(seconds_of(comm.now()), 0.05 * kRanks, 0.03);
                    });
}

TEST(VirtualRanks, AFailedRankEndsTheOthersThoughTheyWaitForTheBaton) {
  try {
    run_virtual_ranks({.num_ranks = 3}, [](Communicator& comm) {
      if (comm.rank() == Rank(1)) throw_user_error("rank 1 has had enough");
      barrier(comm, {.operation = "end"});
    });
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "rank 1 has had enough");
  }
}

TEST(VirtualRanks, RefusesImpossibleLinks) {
  const auto nothing = [](Communicator&) {};
  for (const double bandwidth : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(
        run_virtual_ranks({.num_ranks = 1, .link = {.bytes_per_second = bandwidth}}, nothing),
        UserError);
  }
  EXPECT_THROW(run_virtual_ranks({.num_ranks = 1, .link = {.latency = -1ns}}, nothing), UserError);
}

}  // namespace
}  // namespace weft
