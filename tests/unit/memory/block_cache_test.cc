#include "memory/block_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "base/random.h"

namespace weft {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(BlockCache, ABlockGivenBackServesTheNextRequestOfItsSize) {
  BlockCache cache;
  const MemoryBlock first = cache.take(3 * kMiB);
  ASSERT_NE(first.data, nullptr);
  EXPECT_GE(first.bytes, 3 * kMiB);
  std::memset(first.data, 1, first.bytes);
  cache.give_back(first);
  EXPECT_EQ(cache.lent_bytes(), 0U);
  EXPECT_EQ(cache.kept_bytes(), first.bytes);
  const MemoryBlock slightly_less = cache.take(3 * kMiB - kMiB / 4);
  EXPECT_EQ(slightly_less.data, first.data);
  EXPECT_EQ(cache.kept_bytes(), kMiB / 4) << "the rest";
  cache.give_back(slightly_less);
}

TEST(BlockCache, ALargerPieceServesSeveralRequestsAndGrowsTogetherAgain) {
  BlockCache cache;
  const MemoryBlock large = cache.take(8 * kMiB);
  auto* const begin = static_cast<std::byte*>(large.data);
  for (const std::array<int, 3>& order : {std::array{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, 1}}) {
    cache.give_back({begin, 8 * kMiB});
    std::array<MemoryBlock, 3> parts;
    for (std::size_t i = 0; i < 3; ++i) parts[i] = cache.take((i + 1) * kMiB);
    EXPECT_EQ(parts[0].data, begin);
    EXPECT_EQ(parts[1].data, begin + kMiB);
    EXPECT_EQ(parts[2].data, begin + 3 * kMiB);
    EXPECT_EQ(cache.kept_bytes(), 2 * kMiB);
    for (const int i : order) cache.give_back(parts[static_cast<std::size_t>(i)]);
    EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);
    EXPECT_EQ(cache.take(8 * kMiB).data, begin);
  }
  cache.give_back({begin, 8 * kMiB});
}

// Micro-batches of ever other sizes, each freed in the reverse order: what a step does.
TEST(BlockCache, StepsOfEverOtherSizesHardlyMapAfterTheFirstOnes) {
  BlockCache cache;
  const RandomStream random(11, "block cache");
  std::uint64_t draw = 0;
  int num_takes = 0, num_mapped = 0;
  for (int step = 0; step < 200; ++step) {
    const std::size_t tokens = 1000 + random.below(draw++, 3000);
    std::vector<MemoryBlock> lent;
    for (int i = 0; i < 40; ++i) {
      const std::size_t kept_before = cache.kept_bytes();
      lent.push_back(cache.take(tokens * (512 + 512 * random.below(draw++, 3))));
      if (step < 20) continue;
      ++num_takes;
      num_mapped += cache.kept_bytes() + lent.back().bytes == kept_before ? 0 : 1;
    }
    for (; !lent.empty(); lent.pop_back()) cache.give_back(lent.back());
  }
  EXPECT_LT(num_mapped, num_takes / 50) << num_mapped << " of " << num_takes << ", seed 11";
}

TEST(BlockCache, LargeBlocksAreAlignedToHugePages) {
  BlockCache cache;
  for (const std::size_t bytes : {2 * kMiB, 2 * kMiB + 1, 5 * kMiB}) {
    const MemoryBlock block = cache.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % (2 * kMiB), 0U) << bytes;
    cache.give_back(block);
  }
}

TEST(BlockCache, LentAndKeptStayWithinAnEighthOfTheMostThatWasLent) {
  BlockCache cache;
  const RandomStream random(7, "block cache");
  std::vector<MemoryBlock> lent;
  std::size_t now = 0, most = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    if (!lent.empty() && random.below(2 * i, 100) < 50) {
      const std::size_t pick = random.below(2 * i + 1, lent.size());
      now -= lent[pick].bytes;
      cache.give_back(lent[pick]);
      lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(pick));
    } else {
      lent.push_back(cache.take(1 + random.below(2 * i + 1, 16 * kMiB)));
      ASSERT_NE(lent.back().data, nullptr);
      now += lent.back().bytes;
    }
    most = std::max(most, now);
    ASSERT_EQ(cache.lent_bytes(), now) << "step " << i << ", seed 7";
    ASSERT_LE(cache.lent_bytes() + cache.kept_bytes(), most + most / 8) << "step " << i;
  }
  for (const MemoryBlock& block : lent) cache.give_back(block);
}

// 64 KiB: what sizes are rounded up to.
TEST(BlockCache, LentAndKeptStayWithinALimitWhileTheLentOnesFit) {
  BlockCache cache;
  const RandomStream random(9, "block cache");
  constexpr std::size_t kLimit = 64 * kMiB;
  cache.set_limit(kLimit);
  std::vector<MemoryBlock> lent;
  std::vector<std::size_t> asked;
  std::size_t exact = 0, reused = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::size_t size = (1 + random.below(3 * i, 160)) * (kMiB / 16);
    if (exact + size > kLimit || (!lent.empty() && random.below(3 * i + 1, 100) < 45)) {
      const std::size_t pick = random.below(3 * i + 2, lent.size());
      exact -= asked[pick];
      cache.give_back(lent[pick]);
      lent.erase(lent.begin() + static_cast<std::ptrdiff_t>(pick));
      asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(pick));
    } else {
      const std::size_t kept_before = cache.kept_bytes();
      lent.push_back(cache.take(size));
      reused += cache.kept_bytes() + lent.back().bytes == kept_before;
      asked.push_back(size);
      exact += size;
    }
    if (cache.kept_bytes() > 0) {
      ASSERT_LE(cache.lent_bytes() + cache.kept_bytes(), kLimit) << "step " << i << ", seed 9";
    }
    ASSERT_LE(cache.lent_bytes(), kLimit + kLimit / 8);
  }
  EXPECT_GT(reused, 500U);
  for (const MemoryBlock& block : lent) cache.give_back(block);
}

TEST(BlockCache, MoreThanTheLimitIsLentAllTheSame) {
  BlockCache cache;
  cache.set_limit(4 * kMiB);
  const MemoryBlock first = cache.take(3 * kMiB), second = cache.take(3 * kMiB);
  ASSERT_NE(second.data, nullptr);
  cache.give_back(first);
  cache.give_back(second);
  const MemoryBlock other = cache.take(kMiB);
  EXPECT_LE(cache.lent_bytes() + cache.kept_bytes(), 4 * kMiB);
  cache.give_back(other);
  cache.set_limit(0);
  const MemoryBlock large = cache.take(8 * kMiB);
  cache.give_back(large);
  EXPECT_GE(cache.kept_bytes(), 8 * kMiB);
}

bool is_resident(const MemoryBlock& block) {
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages(block.bytes / kPage);
  EXPECT_EQ(::mincore(block.data, block.bytes, pages.data()), 0);
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

TEST(BlockCache, WhoTakesReservedMemoryFindsNoFreshPage) {
  BlockCache cache;
  cache.reserve(8 * kMiB);
  EXPECT_EQ(cache.lent_bytes(), 0U);
  if (cache.kept_bytes() == 0) GTEST_SKIP() << "this system cannot fetch pages in advance";
  EXPECT_EQ(cache.kept_bytes(), 8 * kMiB);
  const MemoryBlock block = cache.take(5 * kMiB);
  EXPECT_TRUE(is_resident(block));
  EXPECT_EQ(cache.kept_bytes(), 3 * kMiB) << "nothing was mapped";
  cache.reserve(8 * kMiB);
  EXPECT_EQ(cache.kept_bytes(), 3 * kMiB) << "lent memory counts";
  cache.reserve(12 * kMiB);
  EXPECT_EQ(cache.lent_bytes() + cache.kept_bytes(), 12 * kMiB);
  cache.reserve(kMiB);
  EXPECT_EQ(cache.lent_bytes() + cache.kept_bytes(), 12 * kMiB) << "none makes it less";
  cache.give_back(block);
}

TEST(BlockCache, ReservedMemoryIsWholeHugePagesThatSeveralBlocksShare) {
  BlockCache cache;
  cache.reserve(5 * kMiB);
  if (cache.kept_bytes() == 0) GTEST_SKIP() << "this system cannot fetch pages in advance";
  EXPECT_EQ(cache.kept_bytes(), 6 * kMiB);
  const MemoryBlock states[] = {cache.take(kMiB), cache.take(kMiB), cache.take(kMiB)};
  const auto begin = reinterpret_cast<std::uintptr_t>(states[0].data);
  EXPECT_EQ(begin % (2 * kMiB), 0U);
  for (const MemoryBlock& block : states) {
    EXPECT_LT(reinterpret_cast<std::uintptr_t>(block.data) - begin, 6 * kMiB);
    cache.give_back(block);
  }
}

TEST(BlockCache, ReservedMemoryStaysWithinTheLimitAndStaysWhenMoreIsMapped) {
  BlockCache cache;
  cache.set_limit(6 * kMiB);
  cache.reserve(20 * kMiB);
  if (cache.kept_bytes() == 0) GTEST_SKIP() << "this system cannot fetch pages in advance";
  EXPECT_EQ(cache.kept_bytes(), 6 * kMiB);
  cache.set_limit(0);
  cache.reserve(20 * kMiB);
  const MemoryBlock large = cache.take(24 * kMiB);  // no kept piece holds it
  EXPECT_LE(cache.lent_bytes() + cache.kept_bytes(), 27 * kMiB);
  cache.give_back(large);
  EXPECT_GE(cache.kept_bytes(), 20 * kMiB);
}

TEST(BlockCache, ReservingStopsWhenItIsNotWantedAnyMore) {
  BlockCache cache;
  int pieces = 0;
  cache.reserve(128 * kMiB, [&] { return ++pieces < 3; });
  if (cache.kept_bytes() == 0) GTEST_SKIP() << "this system cannot fetch pages in advance";
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(cache.kept_bytes(), 64 * kMiB);
}

TEST(BlockCache, WhatTheSystemCannotGiveIsNull) {
  BlockCache cache;
  EXPECT_EQ(cache.take(std::size_t{1} << 60).data, nullptr);
  EXPECT_EQ(cache.take(std::numeric_limits<std::size_t>::max()).data, nullptr);
  EXPECT_EQ(cache.lent_bytes(), 0U);
}

TEST(BlockCache, NoTwoThreadsGetTheSameBlock) {
  BlockCache cache;
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&cache, id] {
      for (int i = 0; i < 200; ++i) {
        const MemoryBlock block = cache.take(kMiB / 2);
        auto* words = static_cast<volatile int*>(block.data);
        words[0] = id;
        words[1000] = id;
        std::this_thread::yield();
        ASSERT_EQ(words[0], id);
        ASSERT_EQ(words[1000], id);
        cache.give_back(block);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
