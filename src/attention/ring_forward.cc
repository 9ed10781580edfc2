#include <utility>

#include "attention/ring.h"
#include "attention/ring_block.h"

namespace weft {
namespace {

template <class T>
void attend(const RingCall& call, const ForwardRows<T>& rows,
            const std::vector<std::vector<PieceRows>>& visitors, const RingBlock<T>& block) {
  const auto compute = [&](const PieceRows& queries, const PieceRows& keys) {
    call.kernel.forward(ForwardPair<T>{.q = rows.q.of(queries),
                                       .k = read_only(block.keys(keys)),
                                       .v = read_only(block.values(keys)),
                                       .q_begin = queries.range.begin,
                                       .k_begin = keys.range.begin,
                                       .scale = rows.scale,
                                       .out = rows.out.of(queries),
                                       .lse = rows.lse.of(queries)});
  };
  visit_seen_runs(call.sequences, visitors, compute);
}

}  // namespace

template <class T>
void ring_forward(const RingCall& call, const ForwardRows<T>& rows) {
  const RingPath path(call);
  RingBlock<T> visiting(path.largest_rows(), rows.k.num_heads, rows.k.head_dim);
  RingBlock<T> arriving(path.largest_rows(), rows.k.num_heads, rows.k.head_dim);
  pack(call.sequences, rows.k, rows.v, visiting);
  for (std::int32_t hop = 0; hop < path.degree(); ++hop) {
    Handle transfer;
    if (hop + 1 < path.degree()) transfer = path.pass("ring kv forward", hop, visiting, arriving);
    attend(call, rows, path.visitors(hop), visiting);
    path.wait(transfer, "forward");
    std::swap(visiting, arriving);
  }
}

template void ring_forward(const RingCall&, const ForwardRows<float>&);
template void ring_forward(const RingCall&, const ForwardRows<double>&);

}  // namespace weft
