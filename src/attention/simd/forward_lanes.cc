#include "attention/simd/forward_lanes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/lse_merge.h"
#include "attention/simd/query_lanes.h"
#include "attention/simd/targets.h"

// Highway includes this file again for each SIMD level.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/simd/forward_lanes.cc"
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

// Stores scores and keeps the largest of each lane. Masked: keys that a lane does not see get -inf.
template <class D, int kVectors, bool kMasked>
struct TakeScores {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  D d;
  Strided<T> to;
  T* largest;
  const T* limits;  // kMasked: number of visible keys, by lane
  T first_key;      // kMasked
  V best[kVectors];

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(V sum) {
    constexpr std::size_t kOffset = kVector * hn::MaxLanes(D());
    V score = sum;
    if constexpr (kMasked) {
      const V key = hn::Set(d, first_key + static_cast<T>(kRow));
      score = hn::IfThenElse(hn::Lt(key, hn::LoadU(d, limits + kOffset)), sum,
                             hn::Set(d, -std::numeric_limits<T>::infinity()));
    }
    if constexpr (kRow == 0) best[kVector] = hn::LoadU(d, largest + kOffset);
    best[kVector] = hn::Max(best[kVector], score);
    hn::StoreU(score, d, to.row(kRow) + kOffset);
  }
  HWY_INLINE void done() const { store(std::make_index_sequence<kVectors>()); }
  template <std::size_t... kVector>
  HWY_INLINE void store(std::index_sequence<kVector...>) const {
    (hn::StoreU(best[kVector], d, largest + kVector * hn::MaxLanes(D())), ...);
  }
};

// Online softmax in base 2 over blocks of keys: for each lane the largest score so far, the sum of
// exp2(score - largest), and the same sum weighted by values.
template <class T>
class ForwardLanes {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr std::int64_t kLanes = hn::MaxLanes(D());
  static constexpr std::int64_t kStrip = kStripLanes<T>;

 public:
  ForwardLanes(const ForwardTask<T>& task, const ForwardTask<T>* next, T* scratch)
      : pair_(*task.pair),
        block_(task.block),
        next_(next),
        head_dim_(pair_.q.head_dim),
        columns_(round_up(head_dim_, kRowStep)),
        sizes_(forward_block_sizes(head_dim_)) {
    const auto take = [&](std::int64_t size) {
      T* place = scratch;
      scratch += size;
      return place;
    };
    queries_ = take(sizes_.num_lanes * columns_);
    sums_ = take(sizes_.num_lanes * columns_);
    keys_ = take(sizes_.num_keys * columns_);
    values_ = take(sizes_.num_keys * columns_);
    scores_ = take(sizes_.num_keys * kLaneStep);
    largest_ = take(sizes_.num_lanes);
    weights_ = take(sizes_.num_lanes);
    block_largest_ = take(kLaneStep);
    correction_ = take(kLaneStep);
    limits_ = take(kLaneStep);
    spare_ = take(columns_);
  }

  void run() {
    start();
    const std::int64_t end = block_.lanes.visible(block_.first_lane + block_.num_lanes - 1);
    for (std::int64_t key = 0; key < end; key += sizes_.num_keys) {
      const std::int64_t num_keys = std::min(sizes_.num_keys, end - key);
      const std::int64_t kv_head = block_.lanes.kv_head;
      copy_keys(D(), pair_.k, key, num_keys, kv_head, keys_, columns_);
      copy_keys(D(), pair_.v, key, num_keys, kv_head, values_, columns_);
      for (std::int64_t first = 0; first < block_.num_lanes; first += kStrip) {
        if (key == 0) prefetch(first);
        const StripCover cover = cover_strip(block_, first, key, num_keys, limits_);
        if (cover.most_keys() == 0) continue;
        make_scores(cover, first);
        make_weights(cover, first);
        add_values(cover, first, key == 0);
      }
    }
    finish();
  }

 private:
  // While a strip is computed, its rows of out come into cache, and some of what comes next.
  void prefetch(std::int64_t first) const {
    prefetch_lanes(pair_.out, block_, first, kStrip);
    if (next_ == nullptr) return;
    prefetch_lanes(next_->pair->q, next_->block, first, kStrip);
    const std::int64_t kv_head = next_->block.lanes.kv_head;
    const std::int64_t row = first / block_.lanes.share;
    const std::int64_t end = (first + kStrip) / block_.lanes.share + 1;
    prefetch_rows(next_->pair->k, row, end, kv_head, 1);
    prefetch_rows(next_->pair->v, row, end, kv_head, 1);
  }

  // Queries of a strip: [D, kStrip], times what turns scores into powers of 2.
  void start() {
    const T factor = static_cast<T>(pair_.scale * 1.4426950408889634);  // 1 / ln 2
    std::fill_n(spare_, columns_, T(0));
    for (std::int64_t first = 0; first < block_.num_lanes; first += kLanes) {
      const LaneRows<D, const T> q(pair_.q, block_, first, spare_);
      rows_to_lanes(D(), q.rows, head_dim_, factor, lanes_at(queries_, first), kStrip);
    }
    const std::int64_t num_lanes = round_up(block_.num_lanes, kStrip);
    std::fill_n(weights_, num_lanes, T(0));
    std::fill_n(largest_, num_lanes, -std::numeric_limits<T>::infinity());
  }

  // Where a vector of lanes starts in strips of [columns_, kStrip].
  T* lanes_at(T* strips, std::int64_t lane) const {
    return strips + lane / kStrip * kStrip * columns_ + lane % kStrip;
  }

  void make_scores(const StripCover& cover, std::int64_t first) {
    std::copy_n(largest_ + first, kStrip, block_largest_);
    const T* queries = lanes_at(queries_, first);
    int vector = 0;
    for (std::int64_t key = 0; key < cover.most_keys(); key += kRowStep) {
      while (cover.num_keys[vector] <= key) ++vector;
      const bool masked = cover.needs_mask(vector, key);
      for (std::int64_t row = key; row < key + kRowStep; row += kStripRows) {
        switch (cover.num_vectors - vector) {
          case 1:
            masked ? score_rows<1, true>(queries, row, vector)
                   : score_rows<1, false>(queries, row, vector);
            break;
          case 2:
            masked ? score_rows<2, true>(queries, row, vector)
                   : score_rows<2, false>(queries, row, vector);
            break;
          default:
            masked ? score_rows<3, true>(queries, row, vector)
                   : score_rows<3, false>(queries, row, vector);
        }
      }
    }
  }

  template <int kVectors, bool kMasked>
  HWY_INLINE void score_rows(const T* queries, std::int64_t row, int vector) {
    const D d;
    const std::int64_t lane = vector * kLanes;
    TakeScores<D, kVectors, kMasked> take{d,
                                          {scores_ + row * kStrip + lane, kStrip},
                                          block_largest_ + lane,
                                          limits_ + lane,
                                          static_cast<T>(row),
                                          {}};
    Product<kStripRows, kVectors, Left::kByRows, D>::run(d, {keys_ + row * columns_, columns_},
                                                         {queries + lane, kStrip}, head_dim_, take);
  }

  // Turns scores into weights relative to the largest score so far.
  void make_weights(const StripCover& cover, std::int64_t first) {
    const D d;
    for (int v = 0; v < cover.num_vectors; ++v) {
      if (cover.num_keys[v] == 0) continue;
      const std::int64_t lane = v * kLanes;
      const V before = hn::LoadU(d, largest_ + first + lane);
      const V largest = hn::LoadU(d, block_largest_ + lane);
      const V none = hn::Set(d, -std::numeric_limits<T>::infinity());
      const V shift = hn::IfThenZeroElse(hn::Eq(largest, none), largest);
      const V correction = exp2(d, hn::Sub(before, shift));
      V added = hn::Zero(d);
      T* scores = scores_ + lane;
      for (std::int64_t key = 0; key < cover.num_keys[v]; ++key, scores += kStrip) {
        const V weight = exp2(d, hn::Sub(hn::LoadU(d, scores), shift));
        hn::StoreU(weight, d, scores);
        added = hn::Add(added, weight);
      }
      T* weights = weights_ + first + lane;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, weights), correction, added), d, weights);
      hn::StoreU(largest, d, largest_ + first + lane);
      hn::StoreU(correction, d, correction_ + lane);
    }
  }

  void add_values(const StripCover& cover, std::int64_t first, bool is_first_block) {
    std::int64_t begin = 0;
    for (int v = 0; v < cover.num_vectors; ++v) {
      const std::int64_t end = cover.num_keys[v];
      if (end == begin) continue;
      switch (cover.num_vectors - v) {
        case 1:
          add_value_columns<1>(first, v, begin, end, is_first_block);
          break;
        case 2:
          add_value_columns<2>(first, v, begin, end, is_first_block);
          break;
        default:
          add_value_columns<3>(first, v, begin, end, is_first_block);
      }
      begin = end;
    }
  }

  // Keys [begin, end) for the vectors from `vector` on. The first keys of a block also bring what
  // was summed before to the new largest score; in the first block there is nothing yet.
  template <int kVectors>
  void add_value_columns(std::int64_t first, int vector, std::int64_t begin, std::int64_t end,
                         bool is_first_block) {
    const D d;
    using Values = Product<kStripRows, kVectors, Left::kByColumns, D>;
    const std::int64_t lane = vector * kLanes;
    const Strided<T> sums{lanes_at(sums_, first) + lane, kStrip};
    const Strided<const T> weights{scores_ + begin * kStrip + lane, kStrip};
    for (std::int64_t column = 0; column < columns_; column += kStripRows) {
      const Strided<const T> values{values_ + begin * columns_ + column, columns_};
      const Strided<T> to = sums.from(column, 0);
      if (begin == 0 && is_first_block) {
        Values::run(d, values, weights, end - begin, StoreTo<D>{d, to});
      } else if (begin == 0) {
        Values::run(d, values, weights, end - begin, ScaleAndAddTo<D>{d, to, correction_ + lane});
      } else {
        Values::run(d, values, weights, end - begin, AddTo<D>{d, to});
      }
    }
  }

  void finish() {
    for (std::int64_t first = 0; first < block_.num_lanes; first += kLanes) {
      LaneRows<D, T> out(pair_.out, block_, first, spare_);
      T factor[kLanes] = {}, keep[kLanes] = {};
      bool keeps = false;
      LaneCursor at(block_.lanes, block_.first_lane + first);
      for (std::int64_t i = 0; i < out.count; ++i, at.advance()) {
        const T sum = weights_[first + i];
        constexpr T kLn2 = static_cast<T>(0.69314718055994531);
        const T lse = sum == 0 ? -std::numeric_limits<T>::infinity()
                               : largest_[first + i] * kLn2 + std::log(sum);
        T& merged = row_stat(pair_.lse, at.head, at.row);
        const MergeWeights<T> merge = merge_weights(merged, lse);
        merged = merge.lse;
        keep[i] = merge.current;
        keeps = keeps || merge.current != 0;
        factor[i] = sum == 0 ? T(0) : merge.incoming / sum;
        if (merge.incoming == 0) out.rows[i] = spare_;
      }
      lanes_to_rows(D(), lanes_at(sums_, first), kStrip, head_dim_, factor, keeps ? keep : nullptr,
                    out.rows);
    }
  }

  const ForwardPair<T>& pair_;
  const LaneBlock& block_;
  const ForwardTask<T>* next_;
  std::int64_t head_dim_;
  std::int64_t columns_;  // head_dim_, padded
  BlockSizes sizes_;
  T* queries_;        // strips of [D, kStrip]
  T* sums_;           // strips of [columns_, kStrip]
  T* keys_;           // [keys, columns_]
  T* values_;         // [keys, columns_]
  T* scores_;         // [keys, kStrip], of one strip; then its weights
  T* largest_;        // [lanes], in powers of 2
  T* weights_;        // [lanes]
  T* block_largest_;  // [kStrip]
  T* correction_;     // [kStrip]
  T* limits_;         // [kStrip]
  T* spare_;          // [columns_], row of lanes that do not exist
};

void forward_float(const ForwardTask<float>& task, const ForwardTask<float>* next, float* scratch) {
  ForwardLanes<float>(task, next, scratch).run();
}
void forward_double(const ForwardTask<double>& task, const ForwardTask<double>* next,
                    double* scratch) {
  ForwardLanes<double>(task, next, scratch).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);

std::int64_t forward_scratch_size(std::int64_t head_dim) {
  const BlockSizes sizes = forward_block_sizes(head_dim);
  const std::int64_t columns = round_up(head_dim, kRowStep);
  return 2 * (sizes.num_lanes + sizes.num_keys) * columns + sizes.num_keys * kLaneStep +
         2 * sizes.num_lanes + 3 * kLaneStep + columns;
}

void forward_lanes(const ForwardTask<float>& task, const ForwardTask<float>* next, float* scratch) {
  HWY_DYNAMIC_DISPATCH(forward_float)(task, next, scratch);
}
void forward_lanes(const ForwardTask<double>& task, const ForwardTask<double>* next,
                   double* scratch) {
  HWY_DYNAMIC_DISPATCH(forward_double)(task, next, scratch);
}

}  // namespace weft
#endif
