#include "attention/causal_blocks.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

// How often each (query, key) pair lies in a block, over the whole query run: [queries * keys].
std::vector<int> count_visits(const CausalRuns& runs, const TileSizes& tiles,
                              std::int64_t num_queries) {
  std::vector<int> visits(num_queries * runs.num_keys, 0);
  for (std::int64_t row = 0; row < num_queries; row += tiles.query_rows) {
    const std::int64_t num_rows = std::min(tiles.query_rows, num_queries - row);
    visit_causal_blocks(runs, tiles, row, num_rows, [&](const CausalBlock& block) {
      EXPECT_LE(block.num_rows, tiles.query_rows);
      EXPECT_LE(block.num_keys, tiles.key_rows);
      EXPECT_GE(block.num_rows, 1);
      EXPECT_GE(block.num_keys, 1);
      EXPECT_GE(block.row, row);
      EXPECT_LE(block.row + block.num_rows, row + num_rows);
      for (std::int64_t i = block.row; i < block.row + block.num_rows; ++i) {
        for (std::int64_t j = block.key; j < block.key + block.num_keys; ++j) {
          ++visits[i * runs.num_keys + j];
          if (runs.k_begin + j > runs.q_begin + i) {
            EXPECT_TRUE(block.diagonal) << "query " << i << " key " << j;
          }
        }
      }
    });
  }
  return visits;
}

TEST(CausalBlocks, CoverEachVisiblePairOnceAndNoPairTwice) {
  const std::vector<TileSizes> all_tiles{{1, 1, 1}, {4, 4, 2}, {4, 7, 3}, {8, 3, 8}, {5, 20, 2}};
  for (const TileSizes& tiles : all_tiles) {
    for (std::int64_t num_queries : {1, 3, 4, 5, 8, 13}) {
      for (std::int64_t num_keys : {1, 2, 7, 8, 9, 17}) {
        for (std::int64_t q_begin : {0, 1, 5, 40}) {
          for (std::int64_t k_begin : {0, 1, 4, 9, 60}) {
            const CausalRuns runs{q_begin, k_begin, num_keys};
            const std::vector<int> visits = count_visits(runs, tiles, num_queries);
            for (std::int64_t i = 0; i < num_queries; ++i) {
              for (std::int64_t j = 0; j < num_keys; ++j) {
                const int count = visits[i * num_keys + j];
                if (k_begin + j <= q_begin + i) {
                  ASSERT_EQ(count, 1) << "query " << q_begin + i << " key " << k_begin + j;
                } else {
                  ASSERT_LE(count, 1);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(CausalBlocks, WasteOnTheDiagonalIsSmallForShortAndLongDocuments) {
  for (const std::int64_t tokens : {1, 2, 64, 100, 512, 1000, 4096}) {
    const TileSizes tiles = choose_tiles(tokens, tokens);
    const CausalRuns runs{0, 0, tokens};
    std::int64_t area = 0;
    for (std::int64_t row = 0; row < tokens; row += tiles.query_rows) {
      visit_causal_blocks(
          runs, tiles, row, std::min(tiles.query_rows, tokens - row),
          [&](const CausalBlock& block) { area += block.num_rows * block.num_keys; });
    }
    const std::int64_t work = tokens * (tokens + 1) / 2;
    // At most half a diagonal block per row is computed in vain.
    EXPECT_LE(area - work, tokens * tiles.diagonal_rows / 2) << tokens << " tokens";
    EXPECT_LE(area, tokens <= 100 ? 2 * work : work + work / 7) << tokens << " tokens";
  }
}

TEST(CausalBlocks, TilesNeverExceedTheRunOrTheirBound) {
  for (const std::int64_t tokens : {1, 2, 31, 64, 128, 129, 4096, 1 << 20}) {
    const TileSizes tiles = choose_tiles(tokens, tokens);
    EXPECT_LE(tiles.query_rows, std::min(tokens, kLargestTiles.query_rows));
    EXPECT_LE(tiles.key_rows, std::min(tokens, kLargestTiles.key_rows));
    EXPECT_LE(tiles.diagonal_rows, tiles.query_rows);
  }
}

TEST(CausalBlocks, OffsetsBeyondTwoToThe31AreExact) {
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
