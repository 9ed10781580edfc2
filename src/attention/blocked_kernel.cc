#include <cmath>
#include <limits>
#include <memory>

#include "attention/attention_kernel.h"
#include "attention/blas.h"
#include "attention/causal_blocks.h"
#include "attention/kernel_shapes.h"
#include "attention/lse_merge.h"
#include "attention/row_math.h"

namespace weft {
namespace {

template <class T>
using Scratch = std::unique_ptr<T[]>;

template <class T>
Scratch<T> make_scratch(std::int64_t size) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(size));
}

// Rows from `row` on of one head, as a matrix.
template <class T, class U>
MatrixTile<T> tile_of(const HeadRows<U>& rows, std::int64_t row, std::int64_t head,
                      bool transposed = false) {
  return {head_row(rows, row, head), rows.row_stride, transposed};
}

template <class T>
void check_strides_fit_blas(const HeadRows<T>& rows) {
  WEFT_CHECK(rows.row_stride <= std::numeric_limits<int>::max(),
             "attention kernel: row stride {} is beyond what BLAS takes; use the reference kernel",
             rows.row_stride);
}

// Online softmax over key tiles: for each row the largest score so far, the sum of exp(score -
// largest), and the same sum weighted by values.
template <class T>
class BlockedForward {
 public:
  explicit BlockedForward(const ForwardPair<T>& pair)
      : pair_(pair),
        share_(pair.q.num_heads / pair.k.num_heads),
        tiles_(choose_tiles(pair.q.num_rows, pair.k.num_rows)),
        math_(row_math<T>()),
        scores_(make_scratch<T>(tiles_.query_rows * tiles_.key_rows)),
        sums_(make_scratch<T>(tiles_.query_rows * pair.q.head_dim)),
        weights_(make_scratch<T>(tiles_.query_rows)),
        largest_(make_scratch<T>(tiles_.query_rows)) {}

  void run() {
    const CausalRuns runs{pair_.q_begin, pair_.k_begin, pair_.k.num_rows};
    for (std::int64_t row = 0; row < pair_.q.num_rows; row += tiles_.query_rows) {
      const std::int64_t num_rows = std::min(tiles_.query_rows, pair_.q.num_rows - row);
      if (runs.visible(row + num_rows - 1) == 0) continue;
      // Heads that share a key head follow each other, so its keys and values are still in cache.
      for (std::int64_t head = 0; head < pair_.q.num_heads; ++head) {
        start(num_rows);
        visit_causal_blocks(runs, tiles_, row, num_rows,
                            [&](const CausalBlock& block) { add_block(runs, block, row, head); });
        finish(row, num_rows, head);
      }
    }
  }

 private:
  void start(std::int64_t num_rows) {
    std::fill_n(sums_.get(), num_rows * pair_.q.head_dim, T(0));
    std::fill_n(weights_.get(), num_rows, T(0));
    std::fill_n(largest_.get(), num_rows, -std::numeric_limits<T>::infinity());
  }

  void add_block(const CausalRuns& runs, const CausalBlock& block, std::int64_t tile_row,
                 std::int64_t head) {
    const std::int64_t head_dim = pair_.q.head_dim;
    const MatrixTile<T> scores{scores_.get(), block.num_keys};
    multiply({block.num_rows, block.num_keys, head_dim}, static_cast<T>(pair_.scale),
             tile_of<const T>(pair_.q, block.row, head),
             tile_of<const T>(pair_.k, block.key, head / share_, true), T(0), scores);
    for (std::int64_t i = 0; i < block.num_rows; ++i) {
      T* row = scores.data + i * block.num_keys;
      const std::int64_t num_visible =
          block.diagonal
              ? std::clamp<std::int64_t>(runs.visible(block.row + i) - block.key, 0, block.num_keys)
              : block.num_keys;
      add_row(row, num_visible, block.row + i - tile_row);
      std::fill(row + num_visible, row + block.num_keys, T(0));
    }
    multiply({block.num_rows, head_dim, block.num_keys}, T(1),
             MatrixTile<const T>{scores.data, scores.stride},
             tile_of<const T>(pair_.v, block.key, head / share_), T(1),
             MatrixTile<T>{sums_.get() + (block.row - tile_row) * head_dim, head_dim});
  }

  // Turns scores into weights relative to the largest score so far, and what was summed before
  // likewise.
  void add_row(T* scores, std::int64_t size, std::int64_t index) {
    const T before = largest_[index];
    const T seen = math_.largest(scores, size);
    const T largest = seen > before ? seen : before;
    const T shift = largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
    const T added = math_.exp_row(scores, size, shift);
    if (largest != before) {
      const T correction = std::exp(before - shift);
      weights_[index] *= correction;
      T* sums = sums_.get() + index * pair_.q.head_dim;
      for (std::int64_t d = 0; d < pair_.q.head_dim; ++d) sums[d] *= correction;
      largest_[index] = largest;
    }
    weights_[index] += added;
  }

  void finish(std::int64_t tile_row, std::int64_t num_rows, std::int64_t head) {
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const std::int64_t row = tile_row + i;
      merge_row(head_row(pair_.out, row, head), row_stat(pair_.lse, head, row),
                sums_.get() + i * pair_.q.head_dim, 1 / weights_[i],
                largest_[i] + std::log(weights_[i]), pair_.q.head_dim);
    }
  }

  const ForwardPair<T>& pair_;
  std::int64_t share_;  // query heads per key head
  TileSizes tiles_;
  RowMath<T> math_;
  Scratch<T> scores_;   // [query_rows, key_rows]
  Scratch<T> sums_;     // [query_rows, D]
  Scratch<T> weights_;  // [query_rows]
  Scratch<T> largest_;  // [query_rows]
};

template <class T>
class BlockedBackward {
 public:
  explicit BlockedBackward(const BackwardPair<T>& pair)
      : pair_(pair),
        share_(pair.q.num_heads / pair.k.num_heads),
        tiles_(choose_tiles(pair.q.num_rows, pair.k.num_rows)),
        math_(row_math<T>()),
        weights_(make_scratch<T>(tiles_.query_rows * tiles_.key_rows)),
        d_scores_(make_scratch<T>(tiles_.query_rows * tiles_.key_rows)) {}

  void run() {
    const CausalRuns runs{pair_.q_begin, pair_.k_begin, pair_.k.num_rows};
    for (std::int64_t row = 0; row < pair_.q.num_rows; row += tiles_.query_rows) {
      const std::int64_t num_rows = std::min(tiles_.query_rows, pair_.q.num_rows - row);
      if (runs.visible(row + num_rows - 1) == 0) continue;
      for (std::int64_t head = 0; head < pair_.q.num_heads; ++head) {
        visit_causal_blocks(runs, tiles_, row, num_rows, [&](const CausalBlock& block) {
          make_scores(runs, block, head);
          add_gradients(block, head);
        });
      }
    }
  }

 private:
  // weights_ = softmax weights of the block, d_scores_ = gradient of its scores before scaling by q
  // and k.
  void make_scores(const CausalRuns& runs, const CausalBlock& block, std::int64_t head) {
    const ProductSize size{block.num_rows, block.num_keys, pair_.q.head_dim};
    const T scale = static_cast<T>(pair_.scale);
    multiply(size, scale, tile_of<const T>(pair_.q, block.row, head),
             tile_of<const T>(pair_.k, block.key, head / share_, true), T(0),
             MatrixTile<T>{weights_.get(), block.num_keys});
    multiply(size, T(1), tile_of<const T>(pair_.d_out, block.row, head),
             tile_of<const T>(pair_.v, block.key, head / share_, true), T(0),
             MatrixTile<T>{d_scores_.get(), block.num_keys});
    for (std::int64_t i = 0; i < block.num_rows; ++i) {
      const std::int64_t row = block.row + i;
      T* weights = weights_.get() + i * block.num_keys;
      T* d_scores = d_scores_.get() + i * block.num_keys;
      const std::int64_t num_visible =
          block.diagonal
              ? std::clamp<std::int64_t>(runs.visible(row) - block.key, 0, block.num_keys)
              : block.num_keys;
      math_.exp_row(weights, num_visible, row_stat(pair_.lse, head, row));
      math_.d_score_row(weights, d_scores, num_visible, row_stat(pair_.delta, head, row), scale);
      std::fill(weights + num_visible, weights + block.num_keys, T(0));
      std::fill(d_scores + num_visible, d_scores + block.num_keys, T(0));
    }
  }

  void add_gradients(const CausalBlock& block, std::int64_t head) {
    const std::int64_t head_dim = pair_.q.head_dim;
    const std::int64_t kv_head = head / share_;
    const ProductSize to_keys{block.num_keys, head_dim, block.num_rows};
    const ProductSize to_queries{block.num_rows, head_dim, block.num_keys};
    multiply(to_keys, T(1), MatrixTile<const T>{weights_.get(), block.num_keys, true},
             tile_of<const T>(pair_.d_out, block.row, head), T(1),
             tile_of<T>(pair_.d_v, block.key, kv_head));
    multiply(to_keys, T(1), MatrixTile<const T>{d_scores_.get(), block.num_keys, true},
             tile_of<const T>(pair_.q, block.row, head), T(1),
             tile_of<T>(pair_.d_k, block.key, kv_head));
    multiply(to_queries, T(1), MatrixTile<const T>{d_scores_.get(), block.num_keys},
             tile_of<const T>(pair_.k, block.key, kv_head), T(1),
             tile_of<T>(pair_.d_q, block.row, head));
  }

  const BackwardPair<T>& pair_;
  std::int64_t share_;  // query heads per key head
  TileSizes tiles_;
  RowMath<T> math_;
  Scratch<T> weights_;   // [query_rows, key_rows]
  Scratch<T> d_scores_;  // [query_rows, key_rows]
};

template <class T>
void forward_blocked(const ForwardPair<T>& pair) {
  check_pair(pair);
  for (const auto& rows : {pair.q, pair.k, pair.v}) check_strides_fit_blas(rows);
  BlockedForward<T>(pair).run();
}

template <class T>
void backward_blocked(const BackwardPair<T>& pair) {
  check_pair(pair);
  for (const auto& rows : {pair.q, pair.k, pair.v, pair.d_out}) check_strides_fit_blas(rows);
  for (const auto& rows : {pair.d_q, pair.d_k, pair.d_v}) check_strides_fit_blas(rows);
  BlockedBackward<T>(pair).run();
}

class BlockedKernel final : public AttentionKernel {
 public:
  std::string_view name() const override { return "blocked"; }
  void forward(const ForwardPair<float>& pair) const override { forward_blocked(pair); }
  void forward(const ForwardPair<double>& pair) const override { forward_blocked(pair); }
  void backward(const BackwardPair<float>& pair) const override { backward_blocked(pair); }
  void backward(const BackwardPair<double>& pair) const override { backward_blocked(pair); }
};

}  // namespace

std::unique_ptr<AttentionKernel> make_blocked_kernel() { return std::make_unique<BlockedKernel>(); }

}  // namespace weft
