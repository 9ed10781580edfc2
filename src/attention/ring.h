// Attention over one group's ring, as this rank takes part in it (design section 3 "Attention over
// a group").
//
// Ring member i starts with its own key/value block and passes on what it holds; on hop h it
// computes with the block of member (i - h) mod D while the next one is on its way. All members of
// a group make the same sequence of exchanges with sizes that follow from
// GroupSlice::member_ranges, so nothing is negotiated. A block without a causally visible pair is
// passed on and costs no arithmetic. Bytes sent per layer by ring member i of D, with a block row
// of B = 2 * K * D_head * sizeof(T) bytes, S tokens in the sequence and t[j] of them on member j:
// forward B * (S - t[i+1]), backward B * (2 * S - t[i+1]).
#pragma once

#include <cstdint>

#include "attention/attention.h"
#include "attention/packed_rows.h"

namespace weft {

struct RingCall {
  const AttentionKernel& kernel;
  const SharedSequence& shared;
  const RingContext& ring;
  std::int32_t slot_idx = -1;
};

// Merges the shared sequence's attention into out and lse of this rank's pieces.
template <class T>
void ring_forward(const RingCall& call, const ForwardRows<T>& rows);

// Adds the shared sequence's gradients to d_q, d_k and d_v of this rank's pieces. Each d_k and d_v
// is summed over the members in ring order, beginning with its owner: the same bits in every run.
template <class T>
void ring_backward(const RingCall& call, const BackwardRows<T>& rows);

}  // namespace weft
