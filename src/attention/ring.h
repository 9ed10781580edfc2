// Attention over one ring, as this rank takes part in it (design section 3 "Attention over a
// group"): the shared sequences of one group, or of neighbouring groups of the same ranks.
//
// Ring member i starts with its own key/value block, the rows of all the ring's sequences one after
// another, and passes on what it holds; on hop h it computes with the block of member (i - h) mod D
// while the next one is on its way. Queries meet only keys of their own sequence. All members make
// the same sequence of exchanges with sizes that follow from GroupSlice::member_ranges, so nothing
// is negotiated. A run of keys without a causally visible pair is passed on and costs no
// arithmetic. Sent per layer by ring member i of D, with a block row of B = 2 * K * D_head *
// sizeof(T) bytes, S tokens in the ring's sequences and t[j] of them on member j: forward D - 1
// messages and B * (S - t[i+1]) bytes, backward 2 * D - 1 messages and B * (2 * S - t[i+1]) bytes.
#pragma once

#include <cstdint>
#include <span>

#include "attention/attention.h"
#include "attention/packed_rows.h"

namespace weft {

struct RingCall {
  const AttentionKernel& kernel;
  std::span<const SharedSequence> sequences;  // by plan_group_idx, at least one, of equal ranks
  const RingContext& ring;
  std::int32_t slot_idx = -1;
};

// Merges the sequences' attention into out and lse of this rank's pieces.
template <class T>
void ring_forward(const RingCall& call, const ForwardRows<T>& rows);

// Adds the sequences' gradients to d_q, d_k and d_v of this rank's pieces. Each d_k and d_v
// is summed over the members in ring order, beginning with its owner: the same bits in every run.
template <class T>
void ring_backward(const RingCall& call, const BackwardRows<T>& rows);

}  // namespace weft
