// Rows to lanes and back, for the SIMD level that includes it (Highway's foreach_target): a vector
// of the kernel holds one column of as many query rows as it has lanes.
//
// Rows are moved in pieces of 16 bytes, one to each 128-bit block of a vector, chosen so that a
// transposition inside blocks turns rows into neighbouring lanes: block b of vector c is row
// b * kPiece + c before it, and column c of rows b * kPiece .. b * kPiece + kPiece - 1 after it.
// That works the same at every vector width.
#if defined(WEFT_ATTENTION_LANE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_LANE_ROWS_INL_H_
#undef WEFT_ATTENTION_LANE_ROWS_INL_H_
#else
#define WEFT_ATTENTION_LANE_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "attention/simd/query_lanes.h"

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Elements of a 128-bit block.
template <class T>
inline constexpr std::int64_t kPiece =
    hn::MaxLanes(hn::ScalableTag<T>()) == 1 ? 1 : 16 / static_cast<std::int64_t>(sizeof(T));

// The blocks of the result are the pieces at rows[0], rows[kPiece], rows[2 * kPiece], ...
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> gather_pieces(D d, const T* const* rows, std::int64_t column) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (static_cast<std::int64_t>(hn::MaxLanes(D())) > kPiece<T>) {
    const hn::Half<D> half;
    return hn::Combine(d, gather_pieces(half, rows + hn::MaxLanes(half), column),
                       gather_pieces(half, rows, column));
  }
#endif
  return hn::LoadU(d, rows[0] + column);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void scatter_pieces(D d, hn::Vec<D> pieces, T* const* rows, std::int64_t column) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (static_cast<std::int64_t>(hn::MaxLanes(D())) > kPiece<T>) {
    const hn::Half<D> half;
    scatter_pieces(half, hn::LowerHalf(half, pieces), rows, column);
    scatter_pieces(half, hn::UpperHalf(half, pieces), rows + hn::MaxLanes(half), column);
    return;
  }
#endif
  hn::StoreU(pieces, d, rows[0] + column);
}

// kPiece vectors, transposed inside each block.
template <class D>
struct Pieces {
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;
  V v[kPiece<T>];

  // A default constructor of the compiler's own would be without this level's target options, and
  // so could not make NEON's vectors.
  HWY_INLINE Pieces() {}

  HWY_INLINE void transpose(D d) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 8) {
      const V first = hn::InterleaveLower(d, v[0], v[1]);
      v[1] = hn::InterleaveUpper(d, v[0], v[1]);
      v[0] = first;
    } else {
      const hn::Repartition<std::uint64_t, D> wide;
      const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
      const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
      const auto up01 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
      const auto up23 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
      v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
      v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
      v[2] = hn::BitCast(d, hn::InterleaveLower(wide, up01, up23));
      v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, up01, up23));
    }
#else
    (void)d;
#endif
  }
};

// The rows of the lanes of one vector, from `first_lane` of the block on; where there is no lane,
// `spare`.
template <class D, class T>
struct LaneRows {
  T* rows[hn::MaxLanes(D())];
  std::int64_t count;

  LaneRows(const HeadRows<T>& from, const LaneBlock& block, std::int64_t first_lane, T* spare)
      : count(std::min<std::int64_t>(hn::MaxLanes(D()), block.num_lanes - first_lane)) {
    LaneCursor at(block.lanes, block.first_lane + first_lane);
    for (std::int64_t lane = 0; lane < static_cast<std::int64_t>(hn::MaxLanes(D())); ++lane) {
      rows[lane] = lane < count ? head_row(from, at.row, at.head) : spare;
      at.advance();
    }
  }
};

// to[column * to_stride + lane] = rows[lane][column] * factor.
template <class D, class T = hn::TFromD<D>>
void rows_to_lanes(D d, const T* const* rows, std::int64_t num_columns, T factor, T* to,
                   std::int64_t to_stride) {
  const auto scale = hn::Set(d, factor);
  std::int64_t column = 0;
  for (; column + kPiece<T> <= num_columns; column += kPiece<T>) {
    Pieces<D> pieces;
    for (int i = 0; i < kPiece<T>; ++i) pieces.v[i] = gather_pieces(d, rows + i, column);
    pieces.transpose(d);
    for (int i = 0; i < kPiece<T>; ++i) {
      hn::StoreU(hn::Mul(pieces.v[i], scale), d, to + (column + i) * to_stride);
    }
  }
  for (; column < num_columns; ++column) {
    for (std::size_t lane = 0; lane < hn::MaxLanes(D()); ++lane) {
      to[column * to_stride + static_cast<std::int64_t>(lane)] = rows[lane][column] * factor;
    }
  }
}

// rows[lane][column] = keep[lane] * rows[lane][column] + factor[lane] * from[column * from_stride +
// lane]; without `keep`, rows are written and not read.
template <class D, class T = hn::TFromD<D>>
void lanes_to_rows(D d, const T* from, std::int64_t from_stride, std::int64_t num_columns,
                   const T* factor, const T* keep, T* const* rows) {
  constexpr std::int64_t kLanes = hn::MaxLanes(D());
  const auto scale = hn::LoadU(d, factor);
  T kept[kPiece<T> * kLanes];  // as blocks hold the rows before transposition
  for (std::int64_t i = 0; keep != nullptr && i < kPiece<T> * kLanes; ++i) {
    kept[i] = keep[i % kLanes / kPiece<T> * kPiece<T> + i / kLanes];
  }
  std::int64_t column = 0;
  for (; column + kPiece<T> <= num_columns; column += kPiece<T>) {
    Pieces<D> pieces;
    for (int i = 0; i < kPiece<T>; ++i) {
      pieces.v[i] = hn::Mul(hn::LoadU(d, from + (column + i) * from_stride), scale);
    }
    pieces.transpose(d);
    for (int i = 0; i < kPiece<T>; ++i) {
      if (keep != nullptr) {
        pieces.v[i] = hn::MulAdd(hn::LoadU(d, kept + i * kLanes),
                                 gather_pieces(d, rows + i, column), pieces.v[i]);
      }
      scatter_pieces(d, pieces.v[i], rows + i, column);
    }
  }
  for (; column < num_columns; ++column) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      T& place = rows[lane][column];
      const T added = from[column * from_stride + lane] * factor[lane];
      place = keep != nullptr ? keep[lane] * place + added : added;
    }
  }
}

// Copies `num_rows` rows of one head to rows of `to_stride` elements; what is beyond
// the columns, and the rows up to a multiple of kRowStep, become 0.
template <class D, class T = hn::TFromD<D>>
void copy_keys(D d, const HeadRows<const T>& from, std::int64_t first_row, std::int64_t num_rows,
               std::int64_t head, T* to, std::int64_t to_stride) {
  constexpr std::int64_t kLanes = hn::MaxLanes(D());
  for (std::int64_t i = 0; i < num_rows; ++i, to += to_stride) {
    const T* row = head_row(from, first_row + i, head);
    std::int64_t column = 0;
    for (; column + kLanes <= from.head_dim; column += kLanes) {
      hn::StoreU(hn::LoadU(d, row + column), d, to + column);
    }
    for (; column < from.head_dim; ++column) to[column] = row[column];
    for (; column < to_stride; ++column) to[column] = 0;
  }
  std::fill_n(to, (round_up(num_rows, kRowStep) - num_rows) * to_stride, T(0));
}

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#endif
