#include <algorithm>
#include <utility>

#include "attention/ring.h"
#include "attention/ring_block.h"

namespace weft {
namespace {

// Adds to d_q of this rank's pieces, and to d_block what its queries contribute to the visiting
// keys and values.
template <class T>
void attend_backward(const RingCall& call, const BackwardRows<T>& rows,
                     const std::vector<std::vector<PieceRows>>& visitors, const RingBlock<T>& block,
                     const RingBlock<T>& d_block) {
  const auto compute = [&](const PieceRows& queries, const PieceRows& keys) {
    call.kernel.backward(BackwardPair<T>{.q = rows.q.of(queries),
                                         .k = read_only(block.keys(keys)),
                                         .v = read_only(block.values(keys)),
                                         .d_out = rows.d_out.of(queries),
                                         .lse = rows.lse.of(queries),
                                         .delta = rows.delta.of(queries),
                                         .q_begin = queries.range.begin,
                                         .k_begin = keys.range.begin,
                                         .scale = rows.scale,
                                         .d_q = rows.d_q.of(queries),
                                         .d_k = d_block.keys(keys),
                                         .d_v = d_block.values(keys)});
  };
  visit_seen_runs(call.sequences, visitors, compute);
}

template <class T>
void add_to(T* sum, const T* values, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) sum[i] += values[i];
}

// Adds this rank's block, back from its way round the ring, to d_k and d_v.
template <class T>
void unpack(std::span<const SharedSequence> sequences, const RingBlock<T>& block,
            const PackedRows<T>& d_k, const PackedRows<T>& d_v) {
  const T* from = block.data();
  visit_rows(sequences, [&](std::int64_t row) {
    add_to(d_k.row(row), from, d_k.row_size());
    add_to(d_v.row(row), from + d_k.row_size(), d_v.row_size());
    from += block.row_size();
  });
}

}  // namespace

// A block's gradients follow it one hop behind: while they travel, this rank's own share of the
// next block is computed into `share` and added when they have arrived, so both exchanges hide
// behind arithmetic.
template <class T>
void ring_backward(const RingCall& call, const BackwardRows<T>& rows) {
  const RingPath path(call);
  const auto make_block = [&] {
    return RingBlock<T>(path.largest_rows(), rows.k.num_heads, rows.k.head_dim);
  };
  RingBlock<T> visiting = make_block(), arriving = make_block();
  RingBlock<T> share = make_block(), d_leaving = make_block(), d_arriving = make_block();
  pack(call.sequences, rows.k, rows.v, visiting);
  Handle d_transfer;
  for (std::int32_t hop = 0; hop < path.degree(); ++hop) {
    Handle transfer;
    if (hop + 1 < path.degree()) transfer = path.pass("ring kv backward", hop, visiting, arriving);
    const std::int64_t size = path.num_rows(hop) * share.row_size();
    std::fill_n(share.data(), size, T(0));
    attend_backward(call, rows, path.visitors(hop), visiting, share);
    if (hop == 0) {
      std::swap(share, d_leaving);
    } else {
      path.wait(d_transfer, "backward");
      add_to(d_arriving.data(), share.data(), size);
      std::swap(d_arriving, d_leaving);
    }
    d_transfer = path.pass("ring dkv backward", hop, d_leaving, d_arriving);
    path.wait(transfer, "backward");
    std::swap(visiting, arriving);
  }
  path.wait(d_transfer, "backward");
  unpack(call.sequences, d_arriving, rows.d_k, rows.d_v);
}

template void ring_backward(const RingCall&, const BackwardRows<float>&);
template void ring_backward(const RingCall&, const BackwardRows<double>&);

}  // namespace weft
