#include "memory/counting_allocator.h"

#include <gtest/gtest.h>

#include <barrier>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace weft {
namespace {

class CountingAllocatorTest : public ::testing::Test {
 protected:
  CountingAllocatorTest() { install_counting_allocator(); }
};

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

TEST_F(CountingAllocatorTest, CountsLivePeakAndTotalOfTensorsMadeInAScope) {
  AllocationCounter counter;
  const AllocationScope scope(counter);
  at::Tensor a = bytes(100);
  {
    const at::Tensor b = bytes(1000);
    EXPECT_EQ(counter.live(), 1100_B);
  }
  EXPECT_EQ(counter.live(), 100_B);
  EXPECT_EQ(counter.peak(), 1100_B);
  EXPECT_EQ(counter.total_allocations(), 2);
  counter.reset_peak();
  EXPECT_EQ(counter.peak(), 100_B);
  const at::Tensor view = a.narrow(0, 10, 20);
  EXPECT_EQ(counter.live(), 100_B) << "a view owns nothing";
  a.reset();
  EXPECT_EQ(counter.live(), 100_B) << "the view keeps the memory";
}

TEST_F(CountingAllocatorTest, ResultsOfKernelsAreCounted) {
  AllocationCounter counter;
  const at::Tensor a = at::ones({16, 32});
  const AllocationScope scope(counter);
  const at::Tensor product = at::mm(a, a.t());
  EXPECT_EQ(counter.live(), Bytes(16 * 16 * 4));
  EXPECT_EQ(product[0][0].item<float>(), 32);
}

TEST_F(CountingAllocatorTest, NothingOutsideAScopeIsCountedAndScopesNest) {
  AllocationCounter outer;
  AllocationCounter inner;
  const at::Tensor before = bytes(64);
  std::vector<at::Tensor> kept;
  {
    const AllocationScope outer_scope(outer);
    kept.push_back(bytes(1));
    {
      const AllocationScope inner_scope(inner);
      kept.push_back(bytes(2));
    }
    kept.push_back(bytes(4));
  }
  kept.push_back(bytes(8));
  EXPECT_EQ(outer.live(), 5_B);
  EXPECT_EQ(inner.live(), 2_B);
}

TEST_F(CountingAllocatorTest, AFreeOnAnotherThreadCreditsTheRankThatWasCharged) {
  AllocationCounter mine;
  AllocationCounter other;
  at::Tensor tensor;
  {
    const AllocationScope scope(mine);
    tensor = bytes(4096);
  }
  std::thread([&] {
    const AllocationScope scope(other);
    tensor.reset();
  }).join();
  EXPECT_EQ(mine.live(), 0_B);
  EXPECT_EQ(mine.peak(), 4096_B);
  EXPECT_EQ(other.live(), 0_B);
  EXPECT_EQ(other.peak(), 0_B);
}

TEST_F(CountingAllocatorTest, ATensorMayOutliveItsCounter) {
  std::optional<AllocationCounter> counter(std::in_place);
  at::Tensor tensor;
  {
    const AllocationScope scope(*counter);
    tensor = at::full({1000}, 3);
  }
  counter.reset();
  EXPECT_EQ(tensor.sum().item<std::int64_t>(), 3000);
  tensor.reset();
}

TEST_F(CountingAllocatorTest, RanksOnTheirOwnThreadsAreCountedApart) {
  constexpr std::int64_t kRanks = 7;
  std::vector<AllocationCounter> counters(kRanks);
  std::vector<Bytes> live(kRanks);
  std::barrier all_allocated(kRanks);
  std::vector<std::jthread> threads;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      const AllocationScope scope(counters[index]);
      for (int i = 0; i < 200; ++i) bytes(i);
      const at::Tensor kept = bytes(100 * (rank + 1));
      all_allocated.arrive_and_wait();
      live[index] = counters[index].live();
    });
  }
  threads.clear();
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(live[static_cast<std::size_t>(rank)], Bytes(100 * (rank + 1)));
    EXPECT_EQ(counters[static_cast<std::size_t>(rank)].live(), 0_B);
  }
}

TEST_F(CountingAllocatorTest, MemoryIsAlignedTo64BytesForEverySize) {
  for (const std::int64_t size : {1, 2, 63, 64, 65, 1000, 1 << 20}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes(size).data_ptr()) % 64, 0U) << size;
  }
  EXPECT_EQ(bytes(0).numel(), 0);
}

TEST_F(CountingAllocatorTest, MoreThanTheMachineHasIsAClearError) {
  EXPECT_THROW(bytes(std::int64_t{1} << 60), Error);
}

}  // namespace
}  // namespace weft
