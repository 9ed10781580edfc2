#include "attention/simd/query_lanes.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(QueryLanes, HeadsOfAGroupLieBesideEachOtherRowByRow) {
  const QueryLanes lanes{.kv_head = 2, .share = 3, .num_queries = 5, .num_keys = 9};
  EXPECT_EQ(lanes.num_lanes(), 15);
  EXPECT_EQ(lanes.row_of(0), 0);
  EXPECT_EQ(lanes.head_of(0), 6);
  EXPECT_EQ(lanes.row_of(7), 2);
  EXPECT_EQ(lanes.head_of(7), 7);
  float data[5 * 9 * 4] = {};
  const HeadRows<float> rows{data, 5, 9, 4, 36};
  EXPECT_EQ(lanes.row(rows, 7) - data, 2 * 36 + 7 * 4);
}

TEST(QueryLanes, FirstSeeingIsTheFirstLaneThatSeesTheKeyForEveryOffset) {
  for (const std::int64_t share : {1, 2, 7}) {
    for (const std::int64_t q_begin : {0, 1, 5, 40}) {
      for (const std::int64_t k_begin : {0, 1, 4, 9, 60}) {
        const QueryLanes lanes{0, share, 13, 17, q_begin, k_begin};
        for (std::int64_t key = 0; key < lanes.num_keys; ++key) {
          const std::int64_t first = lanes.first_seeing(key);
          for (std::int64_t lane = 0; lane < lanes.num_lanes(); ++lane) {
            ASSERT_EQ(lanes.visible(lane) > key, lane >= first)
                << "key " << k_begin + key << " lane " << lane << " of queries from " << q_begin;
          }
        }
      }
    }
  }
}

TEST(QueryLanes, BlocksAreMadeOfWholeStripsAndRowsOfKeys) {
  for (std::int64_t head_dim = 1; head_dim <= 512; ++head_dim) {
    for (const BlockSizes& sizes :
         {forward_block_sizes(head_dim), backward_block_sizes(head_dim)}) {
      EXPECT_GT(sizes.num_lanes, 0);
      EXPECT_EQ(sizes.num_lanes % kLaneStep, 0);
      EXPECT_EQ(sizes.num_keys % kRowStep, 0);
    }
  }
}

TEST(KernelShapes, OffsetsBeyondTwoToThe31AreExact) {
  char byte = 0;
  const HeadRows<char> square{&byte, 46'342, 1, 1, 46'341};
  EXPECT_EQ(head_row(square, 46'341, 0) - square.data, std::int64_t{46'341} * 46'341);
  // tokens x heads x dim just below and just above 2^31.
  for (const std::int64_t tokens : {(std::int64_t{1} << 19) - 1, (std::int64_t{1} << 19) + 1}) {
    const HeadRows<char> rows{&byte, tokens, 32, 128, 4096};
    EXPECT_EQ(head_row(rows, tokens, 31) - rows.data, tokens * 4096 + 31 * 128);
    const RowStats<char> stats{&byte, tokens * 4096};
    EXPECT_EQ(&row_stat(stats, 2, 7) - stats.data, tokens * 8192 + 7);
  }
  EXPECT_EQ(num_visible_keys(std::int64_t{1} << 40, 0, std::int64_t{1} << 41),
            (std::int64_t{1} << 40) + 1);
}

}  // namespace
}  // namespace weft
