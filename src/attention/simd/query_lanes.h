// The query side of one key head as lanes of vectors.
//
// Query heads that share a key head see the same keys, so row and head together are one long axis:
// lane = row * share + head inside the group. Kernels work on blocks of neighbouring lanes: each
// key is read once for all heads of its group, the number of keys that a lane sees never falls from
// one lane to the next, and a document of few tokens still fills vectors. Letters: D head_dim.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/kernel_shapes.h"

namespace weft {

// Lanes of a block are a multiple of it (but for the last block), and so a multiple of the strip
// that a micro-kernel works on, at every vector width.
inline constexpr std::int64_t kLaneStep = 48;
// Keys and columns are padded to it in scratch: the rows of a micro-kernel divide it.
inline constexpr std::int64_t kRowStep = 8;

constexpr std::int64_t round_up(std::int64_t size, std::int64_t step) {
  return (size + step - 1) / step * step;
}

// Most lanes and keys of a block: what a task keeps at hand lies in two thirds of a second-level
// cache of 1 MiB, and both are long enough that the sums of products seldom leave their registers.
struct BlockSizes {
  std::int64_t num_lanes = kLaneStep;
  std::int64_t num_keys = kRowStep;
};

constexpr BlockSizes forward_block_sizes(std::int64_t head_dim) {
  return {head_dim <= 64 ? 6 * kLaneStep : head_dim <= 128 ? 4 * kLaneStep : 2 * kLaneStep, 128};
}

// Many lanes rather than many keys: each block of lanes adds to the gradients of all keys it sees,
// which come from another thread's cache where threads share a key head.
constexpr BlockSizes backward_block_sizes(std::int64_t head_dim) {
  return {head_dim <= 64 ? 8 * kLaneStep : head_dim <= 128 ? 4 * kLaneStep : 2 * kLaneStep, 48};
}

// All lanes of one key head in one pair of runs.
struct QueryLanes {
  std::int64_t kv_head = 0;
  std::int64_t share = 1;  // query heads per key head
  std::int64_t num_queries = 0;
  std::int64_t num_keys = 0;
  std::int64_t q_begin = 0;
  std::int64_t k_begin = 0;

  std::int64_t num_lanes() const { return num_queries * share; }
  std::int64_t row_of(std::int64_t lane) const { return lane / share; }
  std::int64_t head_of(std::int64_t lane) const { return kv_head * share + lane % share; }
  // Number of leading keys of the run that the lane sees.
  std::int64_t visible(std::int64_t lane) const {
    return num_visible_keys(q_begin + row_of(lane), k_begin, num_keys);
  }
  // The first lane that sees the key; num_lanes() or more: none does.
  std::int64_t first_seeing(std::int64_t key) const {
    return std::max<std::int64_t>(0, k_begin + key - q_begin) * share;
  }
  template <class T>
  T* row(const HeadRows<T>& rows, std::int64_t lane) const {
    return head_row(rows, row_of(lane), head_of(lane));
  }
};

// Walks the lanes one by one without dividing.
struct LaneCursor {
  std::int64_t row = 0;
  std::int64_t head = 0;
  std::int64_t first_head = 0;
  std::int64_t end_head = 0;

  LaneCursor(const QueryLanes& lanes, std::int64_t lane)
      : row(lanes.row_of(lane)),
        head(lanes.head_of(lane)),
        first_head(lanes.kv_head * lanes.share),
        end_head(first_head + lanes.share) {}
  void advance() {
    if (++head < end_head) return;
    head = first_head;
    ++row;
  }
};

template <class Pair>
QueryLanes lanes_of(const Pair& pair, std::int64_t kv_head) {
  return {.kv_head = kv_head,
          .share = pair.q.num_heads / pair.k.num_heads,
          .num_queries = pair.q.num_rows,
          .num_keys = pair.k.num_rows,
          .q_begin = pair.q_begin,
          .k_begin = pair.k_begin};
}

// What one task computes: lanes [first_lane, first_lane + num_lanes) of a key head.
struct LaneBlock {
  QueryLanes lanes;
  std::int64_t first_lane = 0;
  std::int64_t num_lanes = 0;
};

// Asks for rows [first, end) of neighbouring heads, to be in the second-level cache when they are
// needed: rows of short documents would otherwise be waited for.
template <class T>
void prefetch_rows(const HeadRows<T>& rows, std::int64_t first, std::int64_t end,
                   std::int64_t first_head, std::int64_t num_heads) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  end = std::min(end, rows.num_rows);
  for (std::int64_t row = first; row < end; ++row) {
    const T* place = head_row(rows, row, first_head);
    for (std::int64_t i = 0; i < num_heads * rows.head_dim; i += kLine) {
      __builtin_prefetch(place + i, 0, 2);
    }
  }
}

// The same for the rows of lanes [first, first + count) of the block.
template <class T>
void prefetch_lanes(const HeadRows<T>& rows, const LaneBlock& block, std::int64_t first,
                    std::int64_t count) {
  const std::int64_t end = block.first_lane + std::min(first + count, block.num_lanes);
  const std::int64_t share = block.lanes.share;
  prefetch_rows(rows, (block.first_lane + first) / share, (end + share - 1) / share,
                block.lanes.kv_head * share, share);
}

}  // namespace weft
