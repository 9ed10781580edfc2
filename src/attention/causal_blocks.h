// How the blocked kernel covers the visible (query, key) pairs of one pair of runs with rectangular
// blocks.
//
// Each visible pair is in exactly one block. Blocks below the diagonal hold visible pairs only;
// blocks on the diagonal are cut finer, because the part of them above the diagonal is computed in
// vain.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/kernel_shapes.h"

namespace weft {

struct TileSizes {
  std::int64_t query_rows = 1;
  std::int64_t key_rows = 1;
  std::int64_t diagonal_rows = 1;  // query rows of a block on the diagonal
};

// Largest tiles: a score tile (128 KiB in float; backward has two) and the rows it is made from
// stay in a second-level cache of 512 KiB, and products of this size lose little to packing inside
// BLAS. Finer blocks on the diagonal save more arithmetic than their smaller products cost; below
// 32 rows they no longer do.
inline constexpr TileSizes kLargestTiles{128, 256, 32};

// Short runs get smaller query tiles, so that what is computed above the diagonal stays a small
// part of the whole.
inline TileSizes choose_tiles(std::int64_t num_queries, std::int64_t num_keys) {
  const std::int64_t query_rows =
      std::clamp<std::int64_t>(num_queries, 1, kLargestTiles.query_rows);
  const std::int64_t key_rows =
      std::clamp<std::int64_t>(num_keys, query_rows, kLargestTiles.key_rows);
  return {query_rows, key_rows, std::min(query_rows, kLargestTiles.diagonal_rows)};
}

// Rows [row, row + num_rows) of the query run against keys [key, key + num_keys) of the key run.
struct CausalBlock {
  std::int64_t row = 0;
  std::int64_t num_rows = 0;
  std::int64_t key = 0;
  std::int64_t num_keys = 0;
  bool diagonal = false;  // some of its pairs are not visible
};

struct CausalRuns {
  std::int64_t q_begin = 0;
  std::int64_t k_begin = 0;
  std::int64_t num_keys = 0;

  std::int64_t visible(std::int64_t row) const {
    return num_visible_keys(q_begin + row, k_begin, num_keys);
  }
};

// Visits the blocks of query rows [row, row + num_rows) in ascending key order for each row.
// No block is larger than query_rows x key_rows.
template <class Visit>
void visit_causal_blocks(const CausalRuns& runs, const TileSizes& tiles, std::int64_t row,
                         std::int64_t num_rows, const Visit& visit) {
  const std::int64_t seen_by_all = runs.visible(row);
  for (std::int64_t key = 0; key < seen_by_all; key += tiles.key_rows) {
    visit(CausalBlock{row, num_rows, key, std::min(tiles.key_rows, seen_by_all - key), false});
  }
  for (std::int64_t first = 0; first < num_rows; first += tiles.diagonal_rows) {
    const std::int64_t rows = std::min(tiles.diagonal_rows, num_rows - first);
    const std::int64_t end = runs.visible(row + first + rows - 1);
    const std::int64_t seen_by_block = runs.visible(row + first);
    for (std::int64_t key = seen_by_all; key < end; key += tiles.key_rows) {
      const std::int64_t keys = std::min(tiles.key_rows, end - key);
      visit(CausalBlock{row + first, rows, key, keys, key + keys > seen_by_block});
    }
  }
}

}  // namespace weft
