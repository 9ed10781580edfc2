#include "optim/gradient_reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "comm/thread/thread_world.h"

namespace weft {
namespace {

constexpr std::uint64_t kSeed = 20;

// Values over many magnitudes, so that another order of additions gives other bits.
template <class T>
std::vector<T> random_values(std::int32_t rank, std::int64_t size) {
  const RandomStream random(kSeed, fmt::format("rank {}", rank));
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(random.normal(2 * i) *
                               std::exp2(static_cast<double>(random.below(2 * i + 1, 30))));
  }
  return values;
}

template <class T>
at::Tensor to_tensor(const std::vector<T>& values) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(values.size())}, c10::CppTypeToScalarType<T>::value);
  std::copy(values.begin(), values.end(), tensor.template data_ptr<T>());
  return tensor;
}

template <class T>
std::vector<T> to_vector(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.data_ptr<T>() + tensor.numel()};
}

template <class T>
void expect_same_bits(const std::vector<T>& left, const std::vector<T>& right,
                      const std::string& what) {
  ASSERT_EQ(left.size(), right.size()) << what;
  if (left.empty()) return;
  EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size() * sizeof(T)), 0) << what;
}

template <class T>
void check_sums(std::int32_t num_ranks, std::int64_t size) {
  std::vector<T> expected = random_values<T>(0, size);
  for (std::int32_t rank = 1; rank < num_ranks; ++rank) {
    const auto values = random_values<T>(rank, size);
    for (std::size_t i = 0; i < values.size(); ++i) expected[i] += values[i];
  }
  for (const std::int64_t bucket_bytes : {1L, 4L, 8L, 12L, 100L, 1L << 20}) {
    if (bucket_bytes < 100 && size > 100) continue;
    const std::string what =
        fmt::format("{} ranks, {} elements of {} bytes, buckets of {} bytes, seed {}", num_ranks,
                    size, sizeof(T), bucket_bytes, kSeed);
    std::mutex mutex;
    run_thread_ranks({.num_ranks = num_ranks}, [&](Communicator& comm) {
      const at::Tensor flat = to_tensor(random_values<T>(comm.rank().value(), size));
      all_reduce_gradients(comm, flat, Bytes(bucket_bytes), 3);
      const std::lock_guard lock(mutex);
      expect_same_bits(to_vector<T>(flat), expected, what);
    });
  }
}

TEST(GradientReduction, IsTheSumInRankOrderBitForBitForEveryBucketSize) {
  for (const std::int32_t num_ranks : {1, 2, 3, 4, 7}) {
    for (const std::int64_t size : {0, 1, 2, 3, 24, 25, 26, 1000}) {
      check_sums<float>(num_ranks, size);
      check_sums<double>(num_ranks, size);
    }
  }
}

TEST(GradientReduction, SendsWhatTheFormulaSaysInOneRoundPerBucket) {
  constexpr std::int64_t kSize = 40;  // a multiple of ranks * buckets
  std::mutex mutex;
  run_thread_ranks({.num_ranks = 4}, [&](Communicator& comm) {
    const at::Tensor flat = at::ones({kSize}, at::kFloat);
    all_reduce_gradients(comm, flat, Bytes(kSize * 4), 0);
    const ChannelStats one = comm.stats(Channel::kReduce);
    all_reduce_gradients(comm, flat, Bytes(kSize * 4 / 5), 1);
    const ChannelStats both = comm.stats(Channel::kReduce);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(one.bytes_sent, Bytes(2 * kSize * 4 * 3 / 4));
    EXPECT_EQ(both.bytes_sent, 2 * one.bytes_sent);
    EXPECT_EQ(both.messages_sent, 6 * one.messages_sent);
  });
}

TEST(GradientReduction, ANonFiniteElementOfOneRankReachesAll) {
  std::mutex mutex;
  run_thread_ranks({.num_ranks = 3}, [&](Communicator& comm) {
    const at::Tensor flat = at::ones({10}, at::kDouble);
    if (comm.rank() == Rank(1)) flat[7] = std::numeric_limits<double>::quiet_NaN();
    all_reduce_gradients(comm, flat, Bytes(24), 0);
    const std::lock_guard lock(mutex);
    EXPECT_FALSE(std::isfinite(global_norm(flat)));
    EXPECT_EQ(flat[6].item<double>(), 3.0);
  });
}

TEST(GradientReduction, WhatIsNoFlatGradientIsABug) {
  run_thread_ranks({.num_ranks = 1}, [](Communicator& comm) {
    EXPECT_THROW(all_reduce_gradients(comm, at::ones({2, 2}), Bytes(8), 0), InternalError);
    EXPECT_THROW(all_reduce_gradients(comm, at::ones({4, 2}).select(1, 0), Bytes(8), 0),
                 InternalError);
    EXPECT_THROW(all_reduce_gradients(comm, at::ones({4}, at::kHalf), Bytes(8), 0), InternalError);
    EXPECT_THROW(all_reduce_gradients(comm, at::ones({4}), Bytes(0), 0), InternalError);
  });
}

TEST(GlobalNorm, CountsEveryElementOnceForEveryLength) {
  for (const std::int64_t size : {0, 1, 2, 7, 8, 9, 4095, 4096, 4097, 10000}) {
    EXPECT_DOUBLE_EQ(global_norm(at::ones({size}, at::kFloat)),
                     std::sqrt(static_cast<double>(size)));
    // A single element shows at every edge of a lane or a block.
    for (const std::int64_t index : {std::int64_t{0}, size / 2, size - 1}) {
      if (size == 0) continue;
      const at::Tensor flat = at::zeros({size}, at::kDouble);
      flat[index] = -3.0;
      EXPECT_EQ(global_norm(flat), 3.0) << index << " of " << size;
    }
  }
}

TEST(GlobalNorm, AgreesWithAPlainSumOfRandomValues) {
  const auto values = random_values<float>(0, 12345);
  long double sum = 0;
  for (const float value : values) sum += static_cast<long double>(value) * value;
  const double expected = static_cast<double>(std::sqrt(sum));
  EXPECT_NEAR(global_norm(to_tensor(values)), expected, 1e-13 * expected) << "seed " << kSeed;
}

TEST(GlobalNorm, AccumulatesFloatsInDouble) {
  EXPECT_NEAR(global_norm(at::full({4}, 1e30F)), 2e30, 1e24);  // the squares overflow in float
  EXPECT_NEAR(global_norm(at::full({4}, 1e-30F)), 2e-30, 1e-36);
}

TEST(GlobalNorm, IsNotFiniteWhenOneElementIsNot) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (const std::int64_t index : {0, 8, 4999}) {
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        const at::Tensor flat = at::ones({5000}, type);
        flat[index] = bad;
        EXPECT_FALSE(std::isfinite(global_norm(flat))) << bad << " at " << index;
      }
    }
  }
}

TEST(ClipScale, IsTheQuotientOnlyAboveTheLimit) {
  EXPECT_EQ(clip_scale(4.0, 1.0), 0.25);
  EXPECT_EQ(clip_scale(1.0, 1.0), 1.0);
  EXPECT_EQ(clip_scale(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_scale(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_scale(1e9, 0.0), 1.0);
  EXPECT_EQ(clip_scale(1e9, -1.0), 1.0);
  EXPECT_THROW(clip_scale(std::numeric_limits<double>::quiet_NaN(), 1.0), InternalError);
  EXPECT_THROW(clip_scale(std::numeric_limits<double>::infinity(), 1.0), InternalError);
}

}  // namespace
}  // namespace weft
