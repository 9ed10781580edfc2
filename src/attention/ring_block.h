// What travels round a ring: the K and V rows that one member holds of all the ring's sequences (or
// their gradients) in one buffer, and the passing on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/attention_kernel.h"
#include "attention/packed_rows.h"
#include "attention/ring.h"
#include "tensor/tensor.h"

namespace weft {

// [rows, 2, K, D], contiguous: sequence by sequence the member's rows, of each row first its keys,
// then its values. Room for the largest member's rows; whose rows it holds, the hop says. Swapped,
// never copied.
template <class T>
class RingBlock {
 public:
  RingBlock(std::int64_t largest_rows, std::int64_t num_heads, std::int64_t head_dim)
      : memory_(
            at::empty({largest_rows, 2, num_heads, head_dim}, c10::CppTypeToScalarType<T>::value)),
        num_heads_(num_heads),
        head_dim_(head_dim) {}

  T* data() const { return memory_.template data_ptr<T>(); }
  std::int64_t row_size() const { return 2 * num_heads_ * head_dim_; }

  // Rows of one piece; piece.row counts rows of the block.
  HeadRows<T> keys(const PieceRows& piece) const { return half(piece, 0); }
  HeadRows<T> values(const PieceRows& piece) const { return half(piece, num_heads_ * head_dim_); }

 private:
  HeadRows<T> half(const PieceRows& piece, std::int64_t offset) const {
    return {data() + piece.row * row_size() + offset, piece.range.size(), num_heads_, head_dim_,
            row_size()};
  }

  at::Tensor memory_;
  std::int64_t num_heads_;
  std::int64_t head_dim_;
};

template <class T>
HeadRows<const T> read_only(const HeadRows<T>& rows) {
  return {rows.data, rows.num_rows, rows.num_heads, rows.head_dim, rows.row_stride};
}

// Where a member's rows lie in its block.
struct MemberRows {
  std::vector<std::vector<PieceRows>> pieces;  // [sequences of the ring]
  std::int64_t num_rows = 0;
};

// One ring, seen from this rank: who visits on which hop, and the exchange with both neighbours.
class RingPath {
 public:
  // InternalError when groups, layout and communicator disagree.
  explicit RingPath(const RingCall& call);

  std::int32_t degree() const { return degree_; }
  // The pieces whose rows this rank holds on this hop, as rows of the block. Hop 0: its own.
  const std::vector<std::vector<PieceRows>>& visitors(std::int32_t hop) const {
    return members_[visitor(hop)].pieces;
  }
  std::int64_t num_rows(std::int32_t hop) const { return members_[visitor(hop)].num_rows; }
  std::int64_t largest_rows() const;

  // Sends the block of this hop to the next member and receives the block of the next hop from the
  // previous one.
  template <class T>
  Handle pass(std::string_view operation, std::int32_t hop, const RingBlock<T>& leaving,
              const RingBlock<T>& arriving) const {
    const std::int64_t row_bytes = leaving.row_size() * static_cast<std::int64_t>(sizeof(T));
    return exchange(operation, hop, {leaving.data(), row_bytes * num_rows(hop)},
                    {arriving.data(), row_bytes * num_rows(hop + 1)});
  }
  // Until what pass() started has ended.
  void wait(Handle& transfer, std::string_view pass) const;

 private:
  struct ReadBuffer {
    const void* data = nullptr;
    std::int64_t bytes = 0;
  };
  struct WriteBuffer {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  std::size_t visitor(std::int32_t hop) const;
  Handle exchange(std::string_view operation, std::int32_t hop, ReadBuffer leaving,
                  WriteBuffer arriving) const;

  const RingCall& call_;
  std::int32_t degree_;
  std::int32_t position_;
  std::vector<MemberRows> members_;  // [degree]
};

// Whether any query of `queries` sees any key of `keys`.
inline bool sees(const PieceRows& queries, const PieceRows& keys) {
  return !queries.range.empty() && !keys.range.empty() && keys.range.begin < queries.range.end;
}

// Visits this rank's rows of the micro-batch in the order in which its block holds them.
template <class Visit>
void visit_rows(std::span<const SharedSequence> sequences, const Visit& visit) {
  for (const SharedSequence& shared : sequences) {
    for (const PieceRows& piece : shared.pieces) {
      for (std::int64_t i = 0; i < piece.range.size(); ++i) visit(piece.row + i);
    }
  }
}

// Visits each pair of runs of one sequence in which some query of this rank sees some key of the
// visiting block.
template <class Visit>
void visit_seen_runs(std::span<const SharedSequence> sequences,
                     const std::vector<std::vector<PieceRows>>& visitors, const Visit& visit) {
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (const PieceRows& queries : sequences[s].pieces) {
      for (const PieceRows& keys : visitors[s]) {
        if (sees(queries, keys)) visit(queries, keys);
      }
    }
  }
}

// Copies this rank's rows of k and v into its block.
template <class T>
void pack(std::span<const SharedSequence> sequences, const PackedRows<const T>& k,
          const PackedRows<const T>& v, RingBlock<T>& block) {
  T* to = block.data();
  visit_rows(sequences, [&](std::int64_t row) {
    to = std::copy_n(k.row(row), k.row_size(), to);
    to = std::copy_n(v.row(row), v.row_size(), to);
  });
}

}  // namespace weft
