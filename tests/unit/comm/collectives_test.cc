#include "comm/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "comm/thread/thread_world.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr std::int32_t kRankCounts[] = {1, 2, 3, 4, 5, 7, 8};

// Around every edge of a cut into num_ranks parts.
std::vector<std::int64_t> sizes_around(std::int64_t num_ranks) {
  return {0, 1, 2, num_ranks - 1, num_ranks, num_ranks + 1, 2 * num_ranks, 1000, 4003};
}

// Element i of rank's contribution. Sums of these in float depend on the order of the additions.
template <class T>
T contribution(std::int32_t rank, std::int64_t i) {
  const RandomStream random(11, "contribution");
  const auto index = static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint64_t>(i);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random.bits(index));  // sums wrap
  } else {
    return static_cast<T>(random.normal(index) * std::pow(10.0, i % 7 - 3));
  }
}

template <class T>
std::vector<T> contribution_of(std::int32_t rank, std::int64_t count) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(contribution<T>(rank, i));
  return values;
}

// v_0 op v_1 op ..., one element at a time, in T.
template <class T>
std::vector<T> reduced(std::int32_t num_ranks, std::int64_t count, ReduceOp op) {
  std::vector<T> result = contribution_of<T>(0, count);
  for (std::int32_t rank = 1; rank < num_ranks; ++rank) {
    for (std::int64_t i = 0; i < count; ++i) {
      T& sum = result[static_cast<std::size_t>(i)];
      const T value = contribution<T>(rank, i);
      if (op == ReduceOp::kMin) {
        sum = std::min(sum, value);
      } else if (op == ReduceOp::kMax) {
        sum = std::max(sum, value);
      } else if constexpr (std::is_integral_v<T>) {
        sum = static_cast<T>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(value));
      } else {
        sum = sum + value;
      }
    }
  }
  return result;
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

void run_ranks(std::int32_t num_ranks, const std::function<void(Communicator&)>& body) {
  run_thread_ranks({.num_ranks = num_ranks, .wait_limit = std::chrono::seconds(30)}, body);
}

TEST(EvenPart, PartsCoverTheRangeInOrderAndDifferByAtMostOne) {
  for (std::int64_t parts = 1; parts <= 9; ++parts) {
    for (std::int64_t count = 0; count <= 30; ++count) {
      std::int64_t end = 0, previous = even_part(count, parts, 0).size();
      for (std::int64_t index = 0; index < parts; ++index) {
        const TokenRange part = even_part(count, parts, index);
        EXPECT_EQ(part.begin, end);
        EXPECT_LE(part.size(), previous) << "longer parts come first";
        EXPECT_GE(part.size(), even_part(count, parts, 0).size() - 1);
        end = part.end;
        previous = part.size();
      }
      EXPECT_EQ(end, count);
    }
  }
  EXPECT_EQ(even_part(std::int64_t{1} << 40, 3, 2).end, std::int64_t{1} << 40);
  EXPECT_THROW(even_part(5, 3, 3), InternalError);
}

template <class T>
class Reductions : public testing::Test {};
using ElementTypes = testing::Types<float, double, std::int64_t>;
TYPED_TEST_SUITE(Reductions, ElementTypes);

TYPED_TEST(Reductions, AllReduceGivesEveryRankTheBitsOfTheSumInRankOrder) {
  using T = TypeParam;
  for (const std::int32_t num_ranks : kRankCounts) {
    for (const std::int64_t count : sizes_around(num_ranks)) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
        const std::vector<T> expected = reduced<T>(num_ranks, count, op);
        run_ranks(num_ranks, [&](Communicator& comm) {
          std::vector<T> values = contribution_of<T>(comm.rank().value(), count);
          all_reduce<T>(comm, values, op, {.operation = "test"});
          EXPECT_TRUE(same_bits<T>(values, expected))
              << "rank " << comm.rank().value() << " of " << num_ranks << ", " << count
              << " elements, op " << static_cast<int>(op);
        });
      }
    }
  }
}

TYPED_TEST(Reductions, ReduceScatterChangesTheOwnPartOnly) {
  using T = TypeParam;
  for (const std::int32_t num_ranks : kRankCounts) {
    for (const std::int64_t count : sizes_around(num_ranks)) {
      const std::vector<T> sum = reduced<T>(num_ranks, count, ReduceOp::kSum);
      run_ranks(num_ranks, [&](Communicator& comm) {
        const std::int32_t me = comm.rank().value();
        std::vector<T> values = contribution_of<T>(me, count);
        std::vector<T> expected = values;
        const TokenRange part = even_part(count, num_ranks, me);
        std::copy(sum.begin() + part.begin, sum.begin() + part.end, expected.begin() + part.begin);
        reduce_scatter<T>(comm, values, ReduceOp::kSum, {.operation = "test"});
        EXPECT_TRUE(same_bits<T>(values, expected))
            << "rank " << me << " of " << num_ranks << ", " << count << " elements";
      });
    }
  }
}

TYPED_TEST(Reductions, AllGatherAndGatherAllBringEveryPartToEveryRank) {
  using T = TypeParam;
  for (const std::int32_t num_ranks : kRankCounts) {
    for (const std::int64_t count : sizes_around(num_ranks)) {
      run_ranks(num_ranks, [&](Communicator& comm) {
        const std::int32_t me = comm.rank().value();
        const std::vector<T> whole = contribution_of<T>(0, count);
        std::vector<T> values(static_cast<std::size_t>(count), T(-1));
        const TokenRange part = even_part(count, num_ranks, me);
        std::copy(whole.begin() + part.begin, whole.begin() + part.end,
                  values.begin() + part.begin);
        all_gather<T>(comm, values, {.operation = "test"});
        EXPECT_TRUE(same_bits<T>(values, whole));

        const std::vector<T> mine = contribution_of<T>(me, count);
        std::vector<T> expected;
        for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
          const auto theirs = contribution_of<T>(rank, count);
          expected.insert(expected.end(), theirs.begin(), theirs.end());
        }
        EXPECT_TRUE(same_bits<T>(gather_all<T>(comm, mine, {.operation = "test"}), expected));
      });
    }
  }
}

TEST(AllReduce, BuffersOfSeveralRoundsAreReducedWhole) {
  constexpr std::int64_t kCount = 1'500'001;  // 12 MB: several rounds of 4 MiB on 2 and on 3 ranks
  for (const std::int32_t num_ranks : {2, 3}) {
    run_ranks(num_ranks, [&](Communicator& comm) {
      std::vector<std::int64_t> values(kCount);
      for (std::int64_t i = 0; i < kCount; ++i) {
        values[static_cast<std::size_t>(i)] = i * (comm.rank().value() + 1);
      }
      all_reduce<std::int64_t>(comm, values, ReduceOp::kSum, {.operation = "test"});
      const std::int64_t factor = num_ranks * (num_ranks + 1) / 2;
      std::int64_t num_wrong = 0;
      for (std::int64_t i = 0; i < kCount; ++i) {
        num_wrong += values[static_cast<std::size_t>(i)] != i * factor;
      }
      EXPECT_EQ(num_wrong, 0);
      // (count - own part) elements by reduce_scatter, (N - 1) own parts by all_gather.
      const std::int64_t part = even_part(kCount, num_ranks, comm.rank().value()).size();
      EXPECT_EQ(comm.stats(Channel::kReduce).bytes_sent,
                Bytes(8 * (kCount - part + (num_ranks - 1) * part)));
    });
  }
}

TEST(AllReduce, NanWinsAndSignedZeroComesFromTheFirstRankThatHasIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::int32_t nan_rank = 0; nan_rank < 3; ++nan_rank) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
      run_ranks(3, [&](Communicator& comm) {
        const bool has_nan = comm.rank().value() == nan_rank;
        const bool first = comm.rank() == Rank(0);
        const float infinity = std::numeric_limits<float>::infinity();
        std::vector<float> values{has_nan ? kNan : 1.0F, has_nan ? kNan : infinity,
                                  first ? -0.0F : 0.0F};
        all_reduce<float>(comm, values, op, {.operation = "test"});
        EXPECT_TRUE(std::isnan(values[0]));
        EXPECT_TRUE(std::isnan(values[1]));
        EXPECT_EQ(std::signbit(values[2]), op != ReduceOp::kSum);
      });
    }
  }
}

TEST(AllReduce, RanksThatDisagreeAboutTheSizeFailInsteadOfMixing) {
  for (const std::int32_t num_ranks : {2, 3, 4}) {
    for (std::size_t other = 0; other <= 8; ++other) {
      if (other == 5) continue;
      const auto body = [&](Communicator& comm) {
        std::vector<double> values(comm.rank() == Rank(1) ? other : 5, 1.0);
        all_reduce<double>(comm, values, ReduceOp::kSum, {.operation = "uneven"});
      };
      EXPECT_THROW(run_ranks(num_ranks, body), CommError) << num_ranks << " ranks, 5 and " << other;
    }
  }
}

TEST(Broadcast, EveryRankHasTheRootsBytes) {
  for (const std::int32_t num_ranks : kRankCounts) {
    for (const std::size_t size : {0, 1, 100, 10'000}) {
      run_ranks(num_ranks, [&](Communicator& comm) {
        const Rank root(num_ranks - 1);
        const std::byte own{static_cast<unsigned char>(comm.rank().value())};
        std::vector<std::byte> data(size, own);
        broadcast(comm, root, data, {.operation = "test"});
        const std::byte expected{static_cast<unsigned char>(root.value())};
        EXPECT_EQ(data, std::vector<std::byte>(size, expected));
        const std::int64_t copies = comm.rank() == root ? num_ranks - 1 : 0;
        const ChannelStats stats = comm.stats(Channel::kControl);
        EXPECT_EQ(stats.messages_sent, copies);
        EXPECT_EQ(stats.bytes_sent, Bytes(copies * static_cast<std::int64_t>(size)));
      });
    }
  }
}

TEST(ScatterMessages, EachRankReceivesItsOwnMessageOfAnySize) {
  for (const std::int32_t num_ranks : kRankCounts) {
    for (std::int32_t root = 0; root < num_ranks; ++root) {
      run_ranks(num_ranks, [&](Communicator& comm) {
        const auto message_of = [](std::int32_t rank) {
          return std::vector<std::byte>(static_cast<std::size_t>(rank) * 3001,
                                        std::byte{static_cast<unsigned char>(rank + 1)});
        };
        std::vector<std::vector<std::byte>> messages;
        std::int64_t bytes = 0;
        if (comm.rank().value() == root) {
          for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
            messages.push_back(message_of(rank));
            if (rank != root) bytes += 8 + rank * 3001;
          }
        }
        const auto mine = scatter_messages(comm, Rank(root), messages, {.operation = "test"});
        EXPECT_EQ(mine, message_of(comm.rank().value()));
        EXPECT_EQ(comm.stats(Channel::kControl).bytes_sent, Bytes(bytes));
      });
    }
  }
}

TEST(ScatterMessages, ARootWithoutOneMessagePerRankIsRefused) {
  const auto body = [](Communicator& comm) {
    const std::vector<std::vector<std::byte>> messages(2);
    scatter_messages(comm, Rank(0), messages, {.operation = "slices"});
  };
  EXPECT_THROW(run_ranks(3, body), InternalError);
}

TEST(Barrier, NobodyPassesBeforeTheLastHasArrived) {
  for (const std::int32_t num_ranks : kRankCounts) {
    std::atomic<std::int32_t> num_arrived = 0;
    run_ranks(num_ranks, [&](Communicator& comm) {
      for (std::int32_t round = 1; round <= 20; ++round) {
        ++num_arrived;
        barrier(comm, {.operation = "test", .step = round});
        EXPECT_GE(num_arrived.load(), round * num_ranks);
      }
      EXPECT_EQ(comm.stats(Channel::kControl).messages_sent, 20 * (num_ranks - 1));
      EXPECT_EQ(comm.stats(Channel::kControl).bytes_sent, 0_B);
    });
  }
}

TEST(Collectives, SendTheBytesThatTheHeaderPromises) {
  for (const std::int32_t num_ranks : kRankCounts) {
    for (const std::int64_t count : {0L, 1L, 7L, 840L, 841L}) {
      run_ranks(num_ranks, [&](Communicator& comm) {
        const std::int64_t others = num_ranks - 1;
        const std::int64_t part = even_part(count, num_ranks, comm.rank().value()).size();
        std::int64_t messages = 0, bytes = 0;
        const auto expect_sent = [&](Channel channel, std::int64_t more_bytes) {
          messages += others;
          bytes += num_ranks == 1 ? 0 : more_bytes;
          EXPECT_EQ(comm.stats(channel).messages_sent, messages);
          EXPECT_EQ(comm.stats(channel).bytes_sent, Bytes(bytes));
        };
        std::vector<float> values(static_cast<std::size_t>(count), 1.0F);
        reduce_scatter<float>(comm, values, ReduceOp::kSum, {.operation = "a"});
        expect_sent(Channel::kReduce, 4 * (count - part));
        all_gather<float>(comm, values, {.operation = "b"});
        expect_sent(Channel::kReduce, 4 * others * part);
        all_reduce<float>(comm, values, ReduceOp::kSum, {.operation = "c"});
        messages += others;  // its two halves
        expect_sent(Channel::kReduce, 4 * (count - part) + 4 * others * part);
        if (count % num_ranks == 0) {
          EXPECT_EQ(bytes, 4 * 4 * others * (count / num_ranks));  // 2 x 2 (N-1)/N n s
        }
        messages = bytes = 0;
        gather_all<float>(comm, values, {.operation = "d"});
        expect_sent(Channel::kControl, 4 * others * count);
      });
    }
  }
}

TEST(Collectives, DifferentReductionsOfTheSameShapeAreToldApart) {
  // Rank 0 reduces tensor A while rank 1 reduces tensor B: same shape, different meaning.
  const auto body = [](Communicator& comm) {
    std::vector<float> values(16, 1.0F);
    const OpLabel label{.operation = "gradient bucket", .step = 9, .hop = comm.rank().value()};
    all_reduce<float>(comm, values, ReduceOp::kSum, label);
  };
  try {
    run_ranks(2, body);
    FAIL() << "nothing was thrown";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("gradient bucket (step 9, hop 0)"));
    EXPECT_THAT(error.what(), HasSubstr("gradient bucket (step 9, hop 1)"));
  }
}

}  // namespace
}  // namespace weft
