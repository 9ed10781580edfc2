#include "attention/attention.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "attention/packed_rows.h"
#include "attention/ring.h"
#include "base/error.h"

namespace weft {
namespace {

void check_kind(const at::Tensor& tensor, at::IntArrayRef shape, at::ScalarType dtype,
                const char* what) {
  WEFT_CHECK(tensor.defined(), "attention: {} is not defined", what);
  WEFT_CHECK(tensor.scalar_type() == dtype, "attention: {} must be {} as q is, got {}", what,
             dtype_name(dtype), dtype_name(tensor.scalar_type()));
  WEFT_CHECK(tensor.device().is_cpu(), "attention: {} must be in main memory, got device {}", what,
             tensor.device().str());
  WEFT_CHECK(tensor.sizes() == shape, "attention: {} must be [{}], got [{}]", what,
             fmt::join(shape, ", "), fmt::join(tensor.sizes(), ", "));
}

// [T, heads, D] of which each row is contiguous.
void check_rows(const at::Tensor& tensor, at::IntArrayRef shape, at::ScalarType dtype,
                const char* what) {
  check_kind(tensor, shape, dtype, what);
  const bool apart = tensor.size(0) <= 1 || tensor.stride(0) >= tensor.size(1) * tensor.size(2);
  WEFT_CHECK(tensor.size(0) == 0 || (apart && tensor[0].is_contiguous()),
             "attention: {} [{}] must have contiguous rows, got strides [{}]", what,
             fmt::join(shape, ", "), fmt::join(tensor.strides(), ", "));
}

void check_contiguous(const at::Tensor& tensor, at::IntArrayRef shape, at::ScalarType dtype,
                      const char* what) {
  check_kind(tensor, shape, dtype, what);
  WEFT_CHECK(tensor.is_contiguous(), "attention: {} [{}] must be contiguous, got strides [{}]",
             what, fmt::join(shape, ", "), fmt::join(tensor.strides(), ", "));
}

// The shapes that one call agrees on.
struct CallShapes {
  std::int64_t rows[3];     // [T, H, D]
  std::int64_t kv_rows[3];  // [T, K, D]
  std::int64_t stats[2];    // [H, T]
  CallShapes(const AttentionLayout& layout, const AttentionShape& shape)
      : rows{layout.num_rows, shape.num_heads, shape.head_dim},
        kv_rows{layout.num_rows, shape.num_kv_heads, shape.head_dim},
        stats{shape.num_heads, layout.num_rows} {}
};

void check_inputs(const AttentionLayout& layout, const AttentionShape& shape, const at::Tensor& q,
                  const at::Tensor& k, const at::Tensor& v, const RingContext& ring) {
  WEFT_USER_CHECK(shape.num_heads >= 1 && shape.num_kv_heads >= 1 && shape.head_dim >= 1 &&
                      shape.num_heads % shape.num_kv_heads == 0,
                  "attention: heads, key/value heads and head_dim must be at least 1 and heads a "
                  "multiple of key/value heads; got {} heads, {} key/value heads, head_dim {}",
                  shape.num_heads, shape.num_kv_heads, shape.head_dim);
  WEFT_CHECK(q.defined(), "attention: q is not defined");
  const at::ScalarType dtype = q.scalar_type();
  WEFT_USER_CHECK(dtype == at::kFloat || dtype == at::kDouble,
                  "attention: computes in float32 or float64, got {}; set the compute dtype",
                  dtype_name(dtype));
  const CallShapes shapes(layout, shape);
  check_rows(q, shapes.rows, dtype, "q");
  check_rows(k, shapes.kv_rows, dtype, "k");
  check_rows(v, shapes.kv_rows, dtype, "v");
  WEFT_CHECK(layout.shared.empty() || ring.comm != nullptr,
             "attention: the micro-batch shares {} sequences with other ranks, but there is no "
             "communicator",
             layout.shared.size());
}

template <class T>
PackedRows<const T> read_rows(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.size(1), tensor.size(2), tensor.stride(0)};
}

template <class T>
PackedRows<T> write_rows(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.size(1), tensor.size(2), tensor.stride(0)};
}

// How and where one call computes.
struct Call {
  const AttentionKernel& kernel;
  const AttentionLayout& layout;
  const RingContext& ring;
  const AttentionShape& shape;
};

// Causal (query, key) pairs of this rank's queries.
std::int64_t count_pairs(const AttentionLayout& layout) {
  std::int64_t pairs = 0;
  for (const PieceRows& piece : layout.whole) pairs += causal_work(piece.range);
  for (const SharedSequence& shared : layout.shared) {
    for (const PieceRows& piece : shared.pieces) pairs += causal_work(piece.range);
  }
  return pairs;
}

// `products`: matrix products over the pairs, 2 forward and 5 backward.
OperationScope traced(const AttentionLayout& layout, const AttentionShape& shape,
                      const RingContext& ring, std::string_view pass, std::int64_t products) {
  return {{ring.trace, "attention", ring.layer},
          OperationKind::kAttention,
          pass,
          2 * products * shape.num_heads * shape.head_dim * count_pairs(layout)};
}

template <class T>
void run_forward(const Call& call, const ForwardRows<T>& rows) {
  std::vector<ForwardPair<T>> whole;
  whole.reserve(call.layout.whole.size());
  for (const PieceRows& piece : call.layout.whole) {
    whole.push_back({.q = rows.q.of(piece),
                     .k = rows.k.of(piece),
                     .v = rows.v.of(piece),
                     .q_begin = piece.range.begin,
                     .k_begin = piece.range.begin,
                     .scale = rows.scale,
                     .out = rows.out.of(piece),
                     .lse = rows.lse.of(piece)});
  }
  if (!whole.empty()) call.kernel.forward(whole);
  for (const std::span<const SharedSequence> ring : rings_of(call.layout)) {
    ring_forward(RingCall{call.kernel, ring, call.ring, call.layout.slot_idx}, rows);
  }
}

template <class T>
void run_backward(const Call& call, const BackwardRows<T>& rows) {
  std::vector<BackwardPair<T>> whole;
  whole.reserve(call.layout.whole.size());
  for (const PieceRows& piece : call.layout.whole) {
    whole.push_back({.q = rows.q.of(piece),
                     .k = rows.k.of(piece),
                     .v = rows.v.of(piece),
                     .d_out = rows.d_out.of(piece),
                     .lse = rows.lse.of(piece),
                     .delta = rows.delta.of(piece),
                     .q_begin = piece.range.begin,
                     .k_begin = piece.range.begin,
                     .scale = rows.scale,
                     .d_q = rows.d_q.of(piece),
                     .d_k = rows.d_k.of(piece),
                     .d_v = rows.d_v.of(piece)});
  }
  if (!whole.empty()) call.kernel.backward(whole);
  for (const std::span<const SharedSequence> ring : rings_of(call.layout)) {
    ring_backward(RingCall{call.kernel, ring, call.ring, call.layout.slot_idx}, rows);
  }
}

template <class T>
AttentionResult forward_in(const Call& call, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v) {
  const std::int64_t num_rows = q.size(0), num_heads = q.size(1);
  AttentionResult result{
      // a row whose lse is -inf is written without being read
      at::empty({num_rows, num_heads, q.size(2)}, q.options()),
      at::full({num_heads, num_rows}, -std::numeric_limits<double>::infinity(), q.options())};
  run_forward(call, ForwardRows<T>{.q = read_rows<T>(q),
                                   .k = read_rows<T>(k),
                                   .v = read_rows<T>(v),
                                   .scale = call.shape.softmax_scale(),
                                   .out = write_rows<T>(result.out),
                                   .lse = {result.lse.data_ptr<T>(), num_rows}});
  return result;
}

template <class T>
Qkv backward_in(const Call& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const AttentionResult& result, const at::Tensor& d_out) {
  const std::int64_t num_rows = q.size(0);
  const std::int64_t all_heads = call.shape.num_heads + 2 * call.shape.num_kv_heads;
  const Qkv gradients =
      split_qkv(call.shape, at::empty({num_rows, all_heads * call.shape.head_dim}, q.options()));
  // The part of the softmax's backward that all keys of a row share.
  const at::Tensor delta = at::empty({call.shape.num_heads, num_rows}, q.options());  // [H, T]
  call.kernel.start_backward(BackwardStart<T>{.num_rows = num_rows,
                                              .num_heads = call.shape.num_heads,
                                              .head_dim = call.shape.head_dim,
                                              .out = result.out.data_ptr<T>(),
                                              .d_out = d_out.data_ptr<T>(),
                                              .delta = {delta.data_ptr<T>(), num_rows},
                                              .gradients = gradients.packed.data_ptr<T>(),
                                              .gradients_row = gradients.packed.size(1)});
  run_backward(call, BackwardRows<T>{.q = read_rows<T>(q),
                                     .k = read_rows<T>(k),
                                     .v = read_rows<T>(v),
                                     .d_out = read_rows<T>(d_out),
                                     .lse = {result.lse.data_ptr<T>(), num_rows},
                                     .delta = {delta.data_ptr<T>(), num_rows},
                                     .scale = call.shape.softmax_scale(),
                                     .d_q = write_rows<T>(gradients.q),
                                     .d_k = write_rows<T>(gradients.k),
                                     .d_v = write_rows<T>(gradients.v)});
  return gradients;
}

}  // namespace

double AttentionShape::softmax_scale() const {
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

Qkv split_qkv(const AttentionShape& shape, const at::Tensor& packed) {
  const std::int64_t heads = shape.num_heads, kv_heads = shape.num_kv_heads;
  const at::Tensor rows = packed.view({packed.size(0), heads + 2 * kv_heads, shape.head_dim});
  return {.packed = packed,
          .q = rows.narrow(1, 0, heads),
          .k = rows.narrow(1, heads, kv_heads),
          .v = rows.narrow(1, heads + kv_heads, kv_heads)};
}

AttentionResult attention_forward(const AttentionKernel& kernel, const AttentionLayout& layout,
                                  const AttentionShape& shape, const at::Tensor& q,
                                  const at::Tensor& k, const at::Tensor& v,
                                  const RingContext& ring) {
  check_inputs(layout, shape, q, k, v, ring);
  const OperationScope scope = traced(layout, shape, ring, "forward", 2);
  const Call call{kernel, layout, ring, shape};
  if (q.scalar_type() == at::kDouble) return forward_in<double>(call, q, k, v);
  return forward_in<float>(call, q, k, v);
}

Qkv attention_backward(const AttentionKernel& kernel, const AttentionLayout& layout,
                       const AttentionShape& shape, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const AttentionResult& result, const at::Tensor& d_out,
                       const RingContext& ring) {
  check_inputs(layout, shape, q, k, v, ring);
  const CallShapes shapes(layout, shape);
  check_contiguous(result.out, shapes.rows, q.scalar_type(), "out");
  check_contiguous(result.lse, shapes.stats, q.scalar_type(), "lse");
  check_contiguous(d_out, shapes.rows, q.scalar_type(), "d_out");
  const OperationScope scope = traced(layout, shape, ring, "backward", 5);
  const Call call{kernel, layout, ring, shape};
  if (q.scalar_type() == at::kDouble) return backward_in<double>(call, q, k, v, result, d_out);
  return backward_in<float>(call, q, k, v, result, d_out);
}

}  // namespace weft
