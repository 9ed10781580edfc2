// The micro-kernel: a small tile of a matrix product whose sums stay in registers, for the SIMD
// level that includes it (Highway's foreach_target).
//
// sum[r][c] = sum over k of left[r][k] * right[k][c]: each k broadcasts kRows numbers of `left` and
// loads kVectors vectors of `right`. A Finish takes the sums while they are still in registers:
// take<row, vector>(sum) row by row, then done(). Indices are template arguments throughout: an
// array of vectors stays in registers only if no index is left at run time.
#if defined(WEFT_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_PRODUCT_INL_H_
#undef WEFT_ATTENTION_PRODUCT_INL_H_
#else
#define WEFT_ATTENTION_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace weft {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Tiles that the registers hold: 24 sums of 32 registers, 12 of 16. kStrip*: lanes of queries in
// vectors, rows are keys or columns. kWide*: columns in vectors, rows are keys.
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_MAX_BYTES == 64)
inline constexpr int kStripRows = 8;
inline constexpr int kStripVectors = 3;
inline constexpr int kWideRows = 6;
inline constexpr int kWideVectors = 4;
#else
inline constexpr int kStripRows = 4;
inline constexpr int kStripVectors = 3;
inline constexpr int kWideRows = 4;
inline constexpr int kWideVectors = 3;
#endif

// How `left` lies: left[r][k] at r * stride + k, or at k * stride + r.
enum class Left : std::uint8_t { kByRows, kByColumns };

template <class T>
struct Strided {
  T* data = nullptr;
  std::int64_t stride = 0;  // elements between rows

  T* row(std::int64_t index) const { return data + index * stride; }
  Strided from(std::int64_t row_idx, std::int64_t column) const {
    return {row(row_idx) + column, stride};
  }
};

template <int kRows, int kVectors, Left kLeft, class D>
class Product {
 public:
  using T = hn::TFromD<D>;
  using V = hn::Vec<D>;

  template <class Finish>
  static HWY_INLINE void run(D d, const Strided<const T>& left, const Strided<const T>& right,
                             std::int64_t depth, Finish finish) {
    V sums[kRows * kVectors];
    clear(d, sums, kAll);
    if constexpr (kLeft == Left::kByRows) {
      const T* rows[kRows];
      point(left, rows, kEachRow);
      const T* vectors = right.data;
      for (std::int64_t k = 0; k < depth; ++k, vectors += right.stride) {
        V loaded[kVectors];
        load(d, vectors, loaded, kEachVector);
        add_pointed(d, rows, k, loaded, sums, kEachRow);
      }
    } else {
      const T* column = left.data;
      const T* vectors = right.data;
      for (std::int64_t k = 0; k < depth; ++k, vectors += right.stride, column += left.stride) {
        V loaded[kVectors];
        load(d, vectors, loaded, kEachVector);
        add_column(d, column, loaded, sums, kEachRow);
      }
    }
    give(sums, finish, kAll);
    finish.done();
  }

 private:
  static constexpr std::make_index_sequence<kRows * kVectors> kAll{};
  static constexpr std::make_index_sequence<kRows> kEachRow{};
  static constexpr std::make_index_sequence<kVectors> kEachVector{};

  template <std::size_t... kIdx>
  static HWY_INLINE void clear(D d, V* sums, std::index_sequence<kIdx...>) {
    ((sums[kIdx] = hn::Zero(d)), ...);
  }
  template <std::size_t... kRow>
  static HWY_INLINE void point(const Strided<const T>& left, const T** rows,
                               std::index_sequence<kRow...>) {
    ((rows[kRow] = left.row(kRow)), ...);
  }
  template <std::size_t... kVector>
  static HWY_INLINE void load(D d, const T* from, V* loaded, std::index_sequence<kVector...>) {
    ((loaded[kVector] = hn::LoadU(d, from + kVector * hn::MaxLanes(d))), ...);
  }
  template <std::size_t... kRow>
  static HWY_INLINE void add_pointed(D d, const T* const* rows, std::int64_t k, const V* loaded,
                                     V* sums, std::index_sequence<kRow...>) {
    (add_row<kRow>(hn::Set(d, rows[kRow][k]), loaded, sums, kEachVector), ...);
  }
  template <std::size_t... kRow>
  static HWY_INLINE void add_column(D d, const T* column, const V* loaded, V* sums,
                                    std::index_sequence<kRow...>) {
    (add_row<kRow>(hn::Set(d, column[kRow]), loaded, sums, kEachVector), ...);
  }
  template <std::size_t kRow, std::size_t... kVector>
  static HWY_INLINE void add_row(V factor, const V* loaded, V* sums,
                                 std::index_sequence<kVector...>) {
    ((sums[kRow * kVectors + kVector] =
          hn::MulAdd(factor, loaded[kVector], sums[kRow * kVectors + kVector])),
     ...);
  }
  template <class Finish, std::size_t... kIdx>
  static HWY_INLINE void give(const V* sums, Finish& finish, std::index_sequence<kIdx...>) {
    (finish.template take<kIdx / kVectors, kIdx % kVectors>(sums[kIdx]), ...);
  }
};

// to += sums.
template <class D>
struct AddTo {
  using T = hn::TFromD<D>;
  D d;
  Strided<T> to;

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(hn::Vec<D> sum) const {
    T* place = to.row(kRow) + kVector * hn::MaxLanes(d);
    hn::StoreU(hn::Add(hn::LoadU(d, place), sum), d, place);
  }
  HWY_INLINE void done() const {}
};

// to = to * factor + sums; `factor` holds one number per lane.
template <class D>
struct ScaleAndAddTo {
  using T = hn::TFromD<D>;
  D d;
  Strided<T> to;
  const T* factor = nullptr;

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(hn::Vec<D> sum) const {
    T* place = to.row(kRow) + kVector * hn::MaxLanes(d);
    const auto scaled = hn::LoadU(d, factor + kVector * hn::MaxLanes(d));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, place), scaled, sum), d, place);
  }
  HWY_INLINE void done() const {}
};

// to = sums.
template <class D>
struct StoreTo {
  using T = hn::TFromD<D>;
  D d;
  Strided<T> to;

  template <std::size_t kRow, std::size_t kVector>
  HWY_INLINE void take(hn::Vec<D> sum) const {
    hn::StoreU(sum, d, to.row(kRow) + kVector * hn::MaxLanes(d));
  }
  HWY_INLINE void done() const {}
};

}  // namespace HWY_NAMESPACE
}  // namespace weft
HWY_AFTER_NAMESPACE();

#endif
