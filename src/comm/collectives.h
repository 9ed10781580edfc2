// Collectives over exchange(), in a fixed rank order: every transport gives bit-equal results, and
// every rank gets the same bits. All ranks must call the same collective with the same sizes in the
// same order.
//
// Bytes sent per rank for n elements of size s on N ranks: reduce_scatter (N-1)/N * n * s,
// all_gather the same, all_reduce their sum, broadcast (root) (N-1) * n * s, barrier N-1 empty
// messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_range.h"
#include "comm/communicator.h"

namespace weft {

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
