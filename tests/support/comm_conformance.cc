#include "tests/support/comm_conformance.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "comm/collectives.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kLimit = std::chrono::seconds(30);

using Buffer = std::vector<std::byte>;

// Contents that depend on who sends what to whom, so that any mix-up shows.
Buffer message(std::int32_t from, std::int32_t to, std::int64_t index, std::int64_t bytes) {
  Buffer data(static_cast<std::size_t>(bytes));
  const auto salt = static_cast<std::uint64_t>(from * 1'000'003 + to * 10'007 + index * 101);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>((salt + i * 31 + (i >> 8)) & 0xff);
  }
  return data;
}

SendOp send_op(std::int32_t to, const Buffer& data) {
  return {Rank(to), data.data(), Bytes(static_cast<std::int64_t>(data.size()))};
}
RecvOp recv_op(std::int32_t from, Buffer& data) {
  return {Rank(from), data.data(), Bytes(static_cast<std::int64_t>(data.size()))};
}

// Sends message(me, to, index, bytes_of(me, to)) to every rank, itself included, and checks what
// arrives.
void exchange_with_all(Communicator& comm, Channel channel, std::int64_t index,
                       const std::function<std::int64_t(std::int32_t, std::int32_t)>& bytes_of) {
  const std::int32_t me = comm.rank().value();
  std::vector<Buffer> outgoing, incoming;
  for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
    outgoing.push_back(message(me, peer, index, bytes_of(me, peer)));
    incoming.emplace_back(static_cast<std::size_t>(bytes_of(peer, me)));
  }
  std::vector<SendOp> sends;
  std::vector<RecvOp> recvs;
  for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
    sends.push_back(send_op(peer, outgoing[static_cast<std::size_t>(peer)]));
    recvs.push_back(recv_op(peer, incoming[static_cast<std::size_t>(peer)]));
  }
  comm.exchange(channel, {.operation = "all pairs", .step = index}, sends, recvs).wait();
  for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
    EXPECT_EQ(incoming[static_cast<std::size_t>(peer)],
              message(peer, me, index, bytes_of(peer, me)))
        << "rank " << me << " from rank " << peer << " of " << comm.size();
  }
}

// What the body threw on this rank; fails the test if it threw nothing.
std::string comm_error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no CommError was thrown";
  return {};
}

}  // namespace

void CommConformance::run_all_sizes(const std::function<void(Communicator&)>& body) const {
  for (const std::int32_t num_ranks : GetParam().rank_counts) {
    SCOPED_TRACE(testing::Message() << num_ranks << " ranks");
    GetParam().run(num_ranks, kLimit, body);
  }
}

void CommConformance::run_on(std::int32_t num_ranks,
                             const std::function<void(Communicator&)>& body) const {
  const auto& counts = GetParam().rank_counts;
  if (std::find(counts.begin(), counts.end(), num_ranks) == counts.end()) {
    GTEST_SKIP() << GetParam().name << " cannot run " << num_ranks << " ranks here";
  }
  GetParam().run(num_ranks, kLimit, body);
}

TEST_P(CommConformance, EachRankKnowsItsPlaceAndLimit) {
  run_all_sizes([](Communicator& comm) {
    EXPECT_GE(comm.rank().value(), 0);
    EXPECT_LT(comm.rank().value(), comm.size());
    EXPECT_FALSE(comm.transport().empty());
    EXPECT_EQ(comm.wait_limit(), kLimit);
    const std::int64_t mine = comm.rank().value();
    const auto all = gather_all(comm, std::span(&mine, 1), {.operation = "ranks"});
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
  });
}

TEST_P(CommConformance, AllPairsAtOnceWithEqualSizes) {
  for (const std::int64_t bytes : {0, 1, 4095, 4096, 4097, 100'000}) {
    run_all_sizes([bytes](Communicator& comm) {
      exchange_with_all(comm, Channel::kRing, bytes, [&](auto, auto) { return bytes; });
    });
  }
}

TEST_P(CommConformance, AllPairsAtOnceWithUnevenAndZeroSizes) {
  run_all_sizes([](Communicator& comm) {
    for (std::int64_t index = 0; index < 3; ++index) {
      exchange_with_all(comm, Channel::kReduce, index, [&](std::int32_t from, std::int32_t to) {
        return (from * 7919L + to * 104'729L + index * 31) % 5 * 3001;
      });
    }
  });
}

TEST_P(CommConformance, AnExchangeOfNothingReturnsAtOnce) {
  run_all_sizes([](Communicator& comm) {
    comm.exchange(Channel::kRing, {.operation = "nothing"}, {}, {}).wait();
    EXPECT_EQ(comm.stats(Channel::kRing).messages_sent, 0);
  });
}

TEST_P(CommConformance, RingsOfFourMebibytesDoNotDeadlockWhenAllSendFirst) {
  run_all_sizes([](Communicator& comm) {
    const std::int32_t me = comm.rank().value(), size = comm.size();
    const std::int32_t next = (me + 1) % size, previous = (me + size - 1) % size;
    const OpLabel label{.operation = "ring"};
    constexpr std::int64_t kBytes = 4 << 20;
    const Buffer outgoing = message(me, next, 0, kBytes);
    Buffer incoming(kBytes);
    const std::vector sends{send_op(next, outgoing)};
    const std::vector recvs{recv_op(previous, incoming)};
    Handle send = comm.exchange(Channel::kRing, label, sends, {});
    Handle recv = comm.exchange(Channel::kRing, label, {}, recvs);
    send.wait();  // before the receive, on every rank: the receives are posted already
    recv.wait();
    EXPECT_TRUE(incoming == message(previous, me, 0, kBytes));
  });
}

TEST_P(CommConformance, ThousandsOfMessagesInFlightKeepTheirOrder) {
  run_all_sizes([](Communicator& comm) {
    constexpr std::int64_t kPerPeer = 512;
    const std::int32_t me = comm.rank().value(), size = comm.size();
    std::vector<Buffer> outgoing, incoming;
    for (std::int64_t i = 0; i < kPerPeer; ++i) {
      for (std::int32_t peer = 0; peer < size; ++peer) {
        outgoing.push_back(message(me, peer, i, i % 40));
        incoming.emplace_back(static_cast<std::size_t>(i % 40));
      }
    }
    std::vector<SendOp> sends;
    std::vector<RecvOp> recvs;
    for (std::size_t i = 0; i < outgoing.size(); ++i) {
      const auto peer = static_cast<std::int32_t>(i % static_cast<std::size_t>(size));
      sends.push_back(send_op(peer, outgoing[i]));
      recvs.push_back(recv_op(peer, incoming[i]));
    }
    comm.exchange(Channel::kRing, {.operation = "flood"}, sends, recvs).wait();
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      const auto peer = static_cast<std::int32_t>(i % static_cast<std::size_t>(size));
      const auto index = static_cast<std::int64_t>(i) / size;
      ASSERT_EQ(incoming[i], message(peer, me, index, index % 40)) << "message " << index;
    }
  });
}

TEST_P(CommConformance, ManyHandlesMayBeOutstandingAndWaitedOnInAnyOrder) {
  run_all_sizes([](Communicator& comm) {
    constexpr std::int64_t kHandles = 20;
    const std::int32_t me = comm.rank().value(), peer = comm.size() - 1 - me;
    std::vector<Buffer> outgoing, incoming;
    for (std::int64_t i = 0; i < kHandles; ++i) {
      outgoing.push_back(message(me, peer, i, 5000 + i));
      incoming.emplace_back(static_cast<std::size_t>(5000 + i));
    }
    std::vector<Handle> handles;
    for (std::int64_t i = 0; i < kHandles; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::vector sends{send_op(peer, outgoing[at])};
      const std::vector recvs{recv_op(peer, incoming[at])};
      handles.push_back(
          comm.exchange(Channel::kRing, {.operation = "many", .step = i}, sends, recvs));
      EXPECT_TRUE(handles.back().pending());
    }
    for (std::int64_t i = kHandles - 1; i >= 0; --i) {
      handles[static_cast<std::size_t>(i)].wait();
      EXPECT_EQ(incoming[static_cast<std::size_t>(i)], message(peer, me, i, 5000 + i));
    }
  });
}

TEST_P(CommConformance, ChannelsDoNotOvertakeOrMixWithOneAnother) {
  run_all_sizes([](Communicator& comm) {
    const std::int32_t me = comm.rank().value(), peer = comm.size() - 1 - me;
    const std::vector order{Channel::kRing, Channel::kReduce, Channel::kControl};
    std::vector<Buffer> outgoing, incoming;
    for (std::int64_t i = 0; i < kNumChannels; ++i) {
      outgoing.push_back(message(me, peer, i, 64));
      incoming.emplace_back(64);
    }
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::vector sends{send_op(peer, outgoing[i])};
      handles.push_back(comm.exchange(order[i], {.operation = "lanes"}, sends, {}));
    }
    for (std::size_t i = order.size(); i-- > 0;) {  // received in the opposite order
      const std::vector recvs{recv_op(peer, incoming[i])};
      handles.push_back(comm.exchange(order[i], {.operation = "lanes"}, {}, recvs));
    }
    for (Handle& handle : handles) handle.wait();
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(incoming[i], message(peer, me, static_cast<std::int64_t>(i), 64));
    }
  });
}

// One message of a random pattern. All ranks derive the same list from the seed.
struct RandomMessage {
  std::int32_t from, to;
  Channel channel;
  std::int64_t bytes, exchange;
};

std::vector<RandomMessage> random_messages(std::uint64_t seed, std::int32_t num_ranks) {
  const RandomStream random(seed, "messages");
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(bound)));
  };
  std::vector<RandomMessage> messages;
  for (std::int64_t i = 0; i < 200; ++i) {
    const std::int64_t scale = below(3);
    messages.push_back({static_cast<std::int32_t>(below(num_ranks)),
                        static_cast<std::int32_t>(below(num_ranks)),
                        static_cast<Channel>(below(kNumChannels)),
                        scale == 0   ? below(2)
                        : scale == 1 ? below(300)
                                     : below(30'000),
                        i / 10});
  }
  return messages;
}

void run_random_messages(Communicator& comm, std::uint64_t seed) {
  const std::int32_t me = comm.rank().value();
  const auto messages = random_messages(seed, comm.size());
  std::vector<Buffer> outgoing(messages.size()), incoming(messages.size());
  std::vector<Handle> handles;
  const std::int64_t num_exchanges = messages.back().exchange + 1;
  for (std::int64_t exchange = 0; exchange < num_exchanges; ++exchange) {
    for (int channel = 0; channel < kNumChannels; ++channel) {
      std::vector<SendOp> sends;
      std::vector<RecvOp> recvs;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        const RandomMessage& m = messages[i];
        if (m.exchange != exchange || m.channel != static_cast<Channel>(channel)) continue;
        if (m.from == me) {
          outgoing[i] = message(me, m.to, static_cast<std::int64_t>(i), m.bytes);
          sends.push_back(send_op(m.to, outgoing[i]));
        }
        if (m.to == me) {
          incoming[i].resize(static_cast<std::size_t>(m.bytes));
          recvs.push_back(recv_op(m.from, incoming[i]));
        }
      }
      handles.push_back(comm.exchange(static_cast<Channel>(channel),
                                      {.operation = "random", .step = exchange}, sends, recvs));
    }
    // Waits lag behind by a number of exchanges that differs from rank to rank.
    const std::size_t lag = static_cast<std::size_t>((me + exchange) % 5) * kNumChannels;
    for (std::size_t i = 0; i + lag < handles.size(); ++i) handles[i].wait();
  }
  for (Handle& handle : handles) handle.wait();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const RandomMessage& m = messages[i];
    if (m.to != me) continue;
    EXPECT_EQ(incoming[i], message(m.from, me, static_cast<std::int64_t>(i), m.bytes))
        << "message " << i << " of seed " << seed << " from rank " << m.from << " to " << me;
  }
}

TEST_P(CommConformance, RandomPatternsArriveWholeAndInOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    run_all_sizes([seed](Communicator& comm) { run_random_messages(comm, seed); });
  }
}

TEST_P(CommConformance, StatsCountMessagesAndBytesPerChannel) {
  run_all_sizes([](Communicator& comm) {
    exchange_with_all(comm, Channel::kRing, 0, [](auto from, auto) { return 100 + from; });
    const ChannelStats ring = comm.stats(Channel::kRing);
    EXPECT_EQ(ring.messages_sent, comm.size());
    EXPECT_EQ(ring.bytes_sent, Bytes((100 + comm.rank().value()) * comm.size()));
    // A message to oneself may take no time at all.
    EXPECT_GE(ring.blocked, comm.size() > 1 ? 1_ns : 0_ns);
    EXPECT_EQ(comm.stats(Channel::kReduce).messages_sent, 0);
    EXPECT_EQ(comm.stats(Channel::kReduce).bytes_sent, 0_B);
    EXPECT_EQ(comm.stats(Channel::kControl).blocked, 0_ns);
  });
}

TEST_P(CommConformance, DifferentLabelsOrSizesFailOnBothSidesWithBothShown) {
  struct Case {
    OpLabel label;
    std::int64_t bytes;
  };
  const OpLabel expected{.operation = "gradients", .step = 3, .hop = 1};
  OpLabel other_step = expected, other_operation = expected;
  other_step.step = 4;
  other_operation.operation = "norm";
  for (const Case& wrong : {Case{other_step, 24}, Case{other_operation, 24}, Case{expected, 23}}) {
    const auto shows_both = AllOf(HasSubstr(describe(expected)), HasSubstr(describe(wrong.label)),
                                  HasSubstr("24 B"), HasSubstr(std::to_string(wrong.bytes) + " B"));
    const auto body = [&](Communicator& comm) {
      Buffer data(24);
      if (comm.rank() == Rank(0)) data.resize(static_cast<std::size_t>(wrong.bytes));
      const std::vector sends{send_op(1, data)};
      const std::vector recvs{recv_op(0, data)};
      const bool sender = comm.rank() == Rank(0);
      const std::string text = comm_error_of([&] {
        sender ? comm.exchange(Channel::kReduce, wrong.label, sends, {}).wait()
               : comm.exchange(Channel::kReduce, expected, {}, recvs).wait();
      });
      EXPECT_THAT(text, shows_both) << "on rank " << comm.rank().value();
      throw CommError(text);
    };
    const auto& counts = GetParam().rank_counts;
    if (std::find(counts.begin(), counts.end(), 2) == counts.end()) GTEST_SKIP();
    EXPECT_THAT(comm_error_of([&] { run_on(2, body); }), shows_both);
  }
}

TEST_P(CommConformance, AbortEndsEveryRankWithTheRankAndReason) {
  run_on(3, [](Communicator& comm) { barrier(comm, {.operation = "start"}); });
  if (IsSkipped()) return;
  const auto names_cause = AllOf(HasSubstr("rank 2"), HasSubstr("out of paper"));
  const std::string root_cause = comm_error_of([&] {
    run_on(3, [&](Communicator& comm) {
      if (comm.rank() == Rank(2)) {
        comm.abort("out of paper");
        comm.abort("a second reason that must lose");
      }
      const std::string text = comm_error_of([&] { barrier(comm, {.operation = "end"}); });
      EXPECT_THAT(text, names_cause);
      EXPECT_THAT(comm_error_of([&] { barrier(comm, {.operation = "after"}); }), names_cause);
    });
  });
  EXPECT_THAT(root_cause, names_cause);
}

}  // namespace weft
