#include "attention/simd/backward_lanes.h"

#include <algorithm>
#include <limits>

#include "attention/simd/query_lanes.h"
#include "attention/simd/targets.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/simd/backward_lanes.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "attention/simd/exp2_inl.h"
#include "attention/simd/lane_rows_inl.h"
#include "attention/simd/product_inl.h"
#include "attention/simd/strip_cover_inl.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Takes the gradients of weights, with the scores at hand: scores become weights, and the gradients
// of scores are stored. Masked: keys that a lane does not see get 0 in both.
template <class D, bool kMasked>
struct TakeWeightGradients {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  Strided<T> weights;   // in: scores
  Strided<T> d_scores;  // without the scale of scores
  const T* lse;         // in powers of 2
  const T* delta;
  const T* limits;  // kMasked: number of visible keys, by lane
  T first_key;      // kMasked

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(V d_weight) const {
    constexpr std::size_t kOffset = kVector * hn::MaxLanes(D());
    T* place = weights.row(kRow) + kOffset;
    V weight = exp2(d, hn::Sub(hn::LoadU(d, place), hn::LoadU(d, lse + kOffset)));
    V d_score = hn::Mul(weight, hn::Sub(d_weight, hn::LoadU(d, delta + kOffset)));
    if constexpr (kMasked) {
      const V key = hn::Set(d, first_key + static_cast<T>(kRow));
      const auto visible = hn::Lt(key, hn::LoadU(d, limits + kOffset));
      weight = hn::IfThenElseZero(visible, weight);
      d_score = hn::IfThenElseZero(visible, d_score);
    }
    hn::StoreU(weight, d, place);
    hn::StoreU(d_score, d, d_scores.row(kRow) + kOffset);
  }
  HWY_INLINE void done() const {}
};

// Adds sums to rows of keys in the caller's memory, of which fewer may be left than a tile has.
template <class D>
struct AddToKeys {
  using T = hn::TFromD<D>;
  D d;
  Strided<T> to;
  std::int64_t num_rows;
  std::int64_t num_columns;

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(hn::Vec<D> sum) const {
    constexpr std::int64_t kLanes = hn::MaxLanes(D());
    constexpr std::int64_t kColumn = kVector * kLanes;
    if (static_cast<std::int64_t>(kRow) >= num_rows) return;
    T* place = to.row(kRow) + kColumn;
    if (kColumn + kLanes <= num_columns) {
      hn::StoreU(hn::Add(hn::LoadU(d, place), sum), d, place);
    } else if (kColumn < num_columns) {
      T values[kLanes];
      hn::StoreU(sum, d, values);
      for (std::int64_t i = 0; i < num_columns - kColumn; ++i) place[i] += values[i];
    }
  }
  HWY_INLINE void done() const {}
};

template <class T>
class BackwardLanes {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kLanes = hn::MaxLanes(D());
  static constexpr std::int64_t kStrip = kStripLanes<T>;

 public:
  BackwardLanes(const BackwardTask<T>& task, T* scratch)
      : pair_(*task.pair),
        block_(task.block),
        head_dim_(pair_.q.head_dim),
        columns_(round_up(head_dim_, kRowStep)),
        wide_(round_up(head_dim_, kWidest)),
        sizes_(backward_block_sizes(head_dim_)) {
    const auto take = [&](std::int64_t size) {
      T* place = scratch;
      scratch += size;
      return place;
    };
    queries_ = take(sizes_.num_lanes * columns_);
    d_out_ = take(sizes_.num_lanes * columns_);
    d_queries_ = take(sizes_.num_lanes * columns_);
    query_rows_ = take(sizes_.num_lanes * wide_);
    d_out_rows_ = take(sizes_.num_lanes * wide_);
    keys_ = take(sizes_.num_keys * columns_);
    values_ = take(sizes_.num_keys * columns_);
    weights_ = take(sizes_.num_keys * sizes_.num_lanes);
    d_scores_ = take(sizes_.num_keys * sizes_.num_lanes);
    lse_ = take(sizes_.num_lanes);
    delta_ = take(sizes_.num_lanes);
    limits_ = take(kLaneStep);
    spare_ = take(columns_);
  }

  static std::int64_t scratch_size(std::int64_t head_dim) {
    const BlockSizes sizes = backward_block_sizes(head_dim);
    const std::int64_t columns = round_up(head_dim, kRowStep);
    return sizes.num_lanes * (3 * columns + 2 * round_up(head_dim, kWidest)) +
           2 * sizes.num_keys * (columns + sizes.num_lanes) + 2 * sizes.num_lanes + kLaneStep +
           columns;
  }

  void run(const KeyTurns& turns) {
    start();
    const std::int64_t end = block_.lanes.visible(block_.first_lane + block_.num_lanes - 1);
    for (std::int64_t key = 0; key < end; key += sizes_.num_keys) {
      const std::int64_t num_keys = std::min(sizes_.num_keys, end - key);
      const std::int64_t kv_head = block_.lanes.kv_head;
      copy_keys(D(), pair_.k, key, num_keys, kv_head, keys_, columns_);
      copy_keys(D(), pair_.v, key, num_keys, kv_head, values_, columns_);
      for (std::int64_t first = 0; first < block_.num_lanes; first += kStrip) {
        const StripCover cover = cover_strip(block_, first, key, num_keys, limits_);
        if (cover.most_keys() == 0) continue;
        make_score_gradients(cover, first);
        clear_beyond(cover, first);
        add_to_queries(cover, first, key == 0);
      }
      turns.wait(key / sizes_.num_keys);
      add_to_keys(key, num_keys, weights_, d_out_rows_, pair_.d_v);
      add_to_keys(key, num_keys, d_scores_, query_rows_, pair_.d_k);
      turns.pass(key / sizes_.num_keys);
    }
    finish();
  }

 private:
  static constexpr std::int64_t kWidest = 16;  // lanes of the widest vector

  // Queries and d_out twice: in strips of [D, kStrip] for products over columns, as rows for
  // products over lanes. Strips of queries bring scores into powers of 2, rows the scale of d_k.
  void start() {
    constexpr double kLog2E = 1.4426950408889634;
    const T scale = static_cast<T>(pair_.scale);
    const T factor = static_cast<T>(pair_.scale * kLog2E);
    std::fill_n(spare_, columns_, T(0));
    for (std::int64_t first = 0; first < block_.num_lanes; first += kLanes) {
      const LaneRows<D, const T> q(pair_.q, block_, first, spare_);
      const LaneRows<D, const T> d_out(pair_.d_out, block_, first, spare_);
      rows_to_lanes(D(), q.rows, head_dim_, factor, lanes_at(queries_, first), kStrip);
      rows_to_lanes(D(), d_out.rows, head_dim_, T(1), lanes_at(d_out_, first), kStrip);
      std::fill_n(lse_ + first, kLanes, T(0));
      std::fill_n(delta_ + first, kLanes, T(0));
      LaneCursor at(block_.lanes, block_.first_lane + first);
      for (std::int64_t i = 0; i < q.count; ++i, at.advance()) {
        lse_[first + i] = row_stat(pair_.lse, at.head, at.row) * static_cast<T>(kLog2E);
        delta_[first + i] = row_stat(pair_.delta, at.head, at.row);
        copy_scaled(q.rows[i], scale, query_rows_ + (first + i) * wide_);
        copy_scaled(d_out.rows[i], T(1), d_out_rows_ + (first + i) * wide_);
      }
    }
  }

  void copy_scaled(const T* from, T factor, T* to) const {
    const D d;
    std::int64_t column = 0;
    for (; column + kLanes <= head_dim_; column += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + column), hn::Set(d, factor)), d, to + column);
    }
    for (; column < head_dim_; ++column) to[column] = from[column] * factor;
    for (; column < wide_; ++column) to[column] = 0;
  }

  // Where a vector of lanes starts in strips of [columns_, kStrip].
  T* lanes_at(T* strips, std::int64_t lane) const {
    return strips + lane / kStrip * kStrip * columns_ + lane % kStrip;
  }

  void make_score_gradients(const StripCover& cover, std::int64_t first) {
    int vector = 0;
    for (std::int64_t key = 0; key < cover.most_keys(); key += kRowStep) {
      while (cover.num_keys[vector] <= key) ++vector;
      const bool masked = cover.needs_mask(vector, key);
      for (std::int64_t row = key; row < key + kRowStep; row += kStripRows) {
        switch (cover.num_vectors - vector) {
          case 1:
            masked ? gradient_rows<1, true>(first, row, vector)
                   : gradient_rows<1, false>(first, row, vector);
            break;
          case 2:
            masked ? gradient_rows<2, true>(first, row, vector)
                   : gradient_rows<2, false>(first, row, vector);
            break;
          default:
            masked ? gradient_rows<3, true>(first, row, vector)
                   : gradient_rows<3, false>(first, row, vector);
        }
      }
    }
  }

  template <int kVectors, bool kMasked>
  void gradient_rows(std::int64_t first, std::int64_t row, int vector) {
    const D d;
    using Rows = Product<kStripRows, kVectors, Left::kByRows, D>;
    const std::int64_t lane = vector * kLanes;
    const Strided<T> weights{tile(weights_, row) + first + lane, sizes_.num_lanes};
    const Strided<T> d_scores{tile(d_scores_, row) + first + lane, sizes_.num_lanes};
    Rows::run(d, {keys_ + row * columns_, columns_}, {lanes_at(queries_, first) + lane, kStrip},
              head_dim_, StoreTo<D>{d, weights});
    Rows::run(d, {values_ + row * columns_, columns_}, {lanes_at(d_out_, first) + lane, kStrip},
              head_dim_,
              TakeWeightGradients<D, kMasked>{d, weights, d_scores, lse_ + first + lane,
                                              delta_ + first + lane, limits_ + lane,
                                              static_cast<T>(row)});
  }

  T* tile(T* tiles, std::int64_t row) const { return tiles + row * sizes_.num_lanes; }

  // A tile of add_to_keys may reach a few keys beyond the last that a vector has computed.
  void clear_beyond(const StripCover& cover, std::int64_t first) {
    for (int v = 0; v < cover.num_vectors; ++v) {
      const std::int64_t end = std::min(cover.num_keys[v] + kWideRows, sizes_.num_keys);
      for (std::int64_t key = cover.num_keys[v]; key < end; ++key) {
        std::fill_n(tile(weights_, key) + first + v * kLanes, kLanes, T(0));
        std::fill_n(tile(d_scores_, key) + first + v * kLanes, kLanes, T(0));
      }
    }
  }

  void add_to_queries(const StripCover& cover, std::int64_t first, bool is_first_block) {
    std::int64_t begin = 0;
    for (int v = 0; v < cover.num_vectors; ++v) {
      const std::int64_t end = cover.num_keys[v];
      if (end == begin) continue;
      switch (cover.num_vectors - v) {
        case 1:
          add_query_columns<1>(first, v, begin, end, is_first_block);
          break;
        case 2:
          add_query_columns<2>(first, v, begin, end, is_first_block);
          break;
        default:
          add_query_columns<3>(first, v, begin, end, is_first_block);
      }
      begin = end;
    }
  }

  template <int kVectors>
  void add_query_columns(std::int64_t first, int vector, std::int64_t begin, std::int64_t end,
                         bool is_first_block) {
    const D d;
    using Columns = Product<kStripRows, kVectors, Left::kByColumns, D>;
    const std::int64_t lane = vector * kLanes;
    const Strided<T> sums{lanes_at(d_queries_, first) + lane, kStrip};
    const Strided<const T> d_scores{tile(d_scores_, begin) + first + lane, sizes_.num_lanes};
    for (std::int64_t column = 0; column < columns_; column += kStripRows) {
      const Strided<const T> keys{keys_ + begin * columns_ + column, columns_};
      const Strided<T> to = sums.from(column, 0);
      if (begin == 0 && is_first_block) {
        Columns::run(d, keys, d_scores, end - begin, StoreTo<D>{d, to});
      } else {
        Columns::run(d, keys, d_scores, end - begin, AddTo<D>{d, to});
      }
    }
  }

  // to[key] += sum over lanes of factors[key][lane] * rows[lane].
  void add_to_keys(std::int64_t first_key, std::int64_t num_keys, const T* factors, const T* rows,
                   const HeadRows<T>& to) {
    const std::int64_t num_vectors = (head_dim_ + kLanes - 1) / kLanes;
    const std::int64_t num_groups = (num_vectors + kWideVectors - 1) / kWideVectors;
    for (std::int64_t row = 0; row < num_keys; row += kWideRows) {
      const std::int64_t seeing = block_.lanes.first_seeing(first_key + row) - block_.first_lane;
      const std::int64_t lane = std::max<std::int64_t>(0, seeing) / kLanes * kLanes;
      if (lane >= block_.num_lanes) return;
      const std::int64_t num_rows = std::min<std::int64_t>(kWideRows, num_keys - row);
      for (std::int64_t group = 0; group < num_groups; ++group) {
        const std::int64_t begin = num_vectors * group / num_groups;
        const std::int64_t end = num_vectors * (group + 1) / num_groups;
        const std::int64_t column = begin * kLanes;
        const Strided<const T> left{factors + row * sizes_.num_lanes + lane, sizes_.num_lanes};
        const Strided<const T> right{rows + lane * wide_ + column, wide_};
        const AddToKeys<D> add{
            D(),
            {head_row(to, first_key + row, block_.lanes.kv_head) + column, to.row_stride},
            num_rows,
            head_dim_ - column};
        add_wide(end - begin, left, right, block_.num_lanes - lane, add);
      }
    }
  }

  static void add_wide(std::int64_t num_vectors, const Strided<const T>& left,
                       const Strided<const T>& right, std::int64_t depth, const AddToKeys<D>& add) {
    const D d;
    switch (num_vectors) {
      case 1:
        return Product<kWideRows, 1, Left::kByRows, D>::run(d, left, right, depth, add);
      case 2:
        return Product<kWideRows, 2, Left::kByRows, D>::run(d, left, right, depth, add);
      case 3:
        return Product<kWideRows, 3, Left::kByRows, D>::run(d, left, right, depth, add);
      default:
        return Product<kWideRows, kWideVectors, Left::kByRows, D>::run(d, left, right, depth, add);
    }
  }

  void finish() {
    T factor[kLanes], keep[kLanes];
    std::fill_n(factor, kLanes, static_cast<T>(pair_.scale));
    std::fill_n(keep, kLanes, T(1));
    for (std::int64_t first = 0; first < block_.num_lanes; first += kLanes) {
      const std::int64_t last = std::min(first + kLanes, block_.num_lanes) - 1;
      if (block_.lanes.visible(block_.first_lane + last) == 0) continue;  // nothing was summed
      const LaneRows<D, T> d_q(pair_.d_q, block_, first, spare_);
      lanes_to_rows(D(), lanes_at(d_queries_, first), kStrip, head_dim_, factor, keep, d_q.rows);
    }
  }

  const BackwardPair<T>& pair_;
  const LaneBlock& block_;
  std::int64_t head_dim_;
  std::int64_t columns_;  // head_dim_, padded for broadcasts
  std::int64_t wide_;     // head_dim_, padded for vectors
  BlockSizes sizes_;
  T* queries_;     // strips of [D, kStrip]
  T* d_out_;       // strips of [D, kStrip]
  T* d_queries_;   // strips of [columns_, kStrip]
  T* query_rows_;  // [lanes, wide_]
  T* d_out_rows_;  // [lanes, wide_]
  T* keys_;        // [keys, columns_]
  T* values_;      // [keys, columns_]
  T* weights_;     // [keys, lanes]
  T* d_scores_;    // [keys, lanes]
  T* lse_;         // [lanes], in powers of 2
  T* delta_;       // [lanes]
  T* limits_;      // [kStrip]
  T* spare_;       // [columns_], row of lanes that do not exist
};

void backward_float(const BackwardTask<float>& task, float* scratch) {
  BackwardLanes<float>(task, scratch).run(task.turns);
}
void backward_double(const BackwardTask<double>& task, double* scratch) {
  BackwardLanes<double>(task, scratch).run(task.turns);
}
std::int64_t scratch_size(std::int64_t head_dim) {
  return BackwardLanes<float>::scratch_size(head_dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);

std::int64_t backward_scratch_size(std::int64_t head_dim) {
  return HWY_STATIC_DISPATCH(scratch_size)(head_dim);
}

void backward_lanes(const BackwardTask<float>& task, float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_float)(task, scratch);
}
void backward_lanes(const BackwardTask<double>& task, double* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_double)(task, scratch);
}

}  // namespace weft
#endif
