// Collectives over exchange(), in a fixed rank order: every transport gives bit-equal results, and
// every rank gets the same bits. All ranks must call the same collective with the same sizes in the
// same order.
//
// Bytes sent by rank r for n elements of size s on N ranks, p_r = the size of its even part:
//   reduce_scatter  (n - p_r) * s          all_gather  (N-1) * p_r * s
//   all_reduce      their sum; if N divides n each of the two is (N-1)/N * n * s
//   gather_all      (N-1) * n * s          broadcast   (N-1) * n * s by the root
//   scatter_messages  8 * (N-1) + the other ranks' messages, by the root
//   barrier         N-1 empty messages
// Empty parts are sent too, so ranks that disagree about n always fail instead of mixing. One rank
// alone sends nothing. The first three use Channel::kReduce, the others Channel::kControl.
//
// Memory: reduce_scatter and all_reduce hold at most 4 MiB of other ranks' values (or one element
// of each, if that is more) and go in rounds; the others hold none beyond their result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_range.h"
#include "comm/communicator.h"

namespace weft {

// A NaN of any rank makes the result NaN under every op (for min and max the first rank's NaN
// stays). Of -0.0 and 0.0 min and max keep the first rank's. Integer sums wrap.
enum class ReduceOp : std::uint8_t { kSum, kMin, kMax };

// Part `index` of [0, count) cut into `num_parts` as equal as possible (sizes differ by at most 1,
// longer first).
TokenRange even_part(std::int64_t count, std::int64_t num_parts, std::int64_t index);

// In place. Element i of the result is values_0[i] op values_1[i] op ... in rank order, accumulated
// in T. Instantiated for float, double, std::int64_t.
template <class T>
void all_reduce(Communicator& comm, std::span<T> values, ReduceOp op, const OpLabel& label);

// Rank r gets the reduced even_part(values.size(), N, r); other elements of `values` are left as
// they were.
template <class T>
void reduce_scatter(Communicator& comm, std::span<T> values, ReduceOp op, const OpLabel& label);

// Rank r contributes its even_part of `values`; afterwards all ranks hold all parts.
template <class T>
void all_gather(Communicator& comm, std::span<T> values, const OpLabel& label);

// Each rank contributes `mine` (equal sizes on all ranks); result is [N * mine.size()], by rank.
template <class T>
std::vector<T> gather_all(Communicator& comm, std::span<const T> mine, const OpLabel& label);

// Root's bytes reach every rank; sizes must agree.
void broadcast(Communicator& comm, Rank root, std::span<std::byte> data, const OpLabel& label);

// Root sends message r to rank r, sizes unknown to the receiver beforehand. `messages` is read on
// the root only.
std::vector<std::byte> scatter_messages(Communicator& comm, Rank root,
                                        std::span<const std::vector<std::byte>> messages,
                                        const OpLabel& label);

void barrier(Communicator& comm, const OpLabel& label);

}  // namespace weft
