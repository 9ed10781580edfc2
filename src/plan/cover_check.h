// The part of validate() that looks at tokens: every token of every sequence is held once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

// Sees every piece of a plan once, rank by rank, then judges. Most sequences are one piece that is
// all of them: only the other pieces are kept.
class CoverCheck {
 public:
  explicit CoverCheck(const StepPlan& plan) : plan_(plan), is_covered_(plan.sequences.size()) {}

  // About how many pieces are not all of their sequence.
  void expect(std::size_t num_others) { others_.reserve(num_others); }
  // REQUIRES: the piece's indices and range have been checked; `tokens` of its sequence, below
  // 2^32.
  void see(std::int32_t rank, const Piece& piece, Tokens tokens) {
    const auto sequence = static_cast<std::size_t>(piece.sequence_idx);
    if (piece.range.size() == tokens.value() && !is_covered_[sequence]) {
      is_covered_[sequence] = true;
      ++num_covered_;
    } else {
      others_.push_back(placed(rank, piece));
    }
  }

  // `group_of_sequence`: a plan group index, kNoGroup for a sequence without one, and for those
  // beyond its end; groups have sequences of their own. UserError of kind "token twice", "token
  // missing" or "sequence in two groups". Leaves nothing to be judged again.
  void judge(std::span<const std::int32_t> group_of_sequence);

 private:
  struct PlacedPiece {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t sequence_idx = 0;
    std::int32_t rank = 0;
    TokenRange range() const { return {begin, end}; }
  };
  static PlacedPiece placed(std::int32_t rank, const Piece& piece) {
    return {static_cast<std::uint32_t>(piece.range.begin),
            static_cast<std::uint32_t>(piece.range.end), piece.sequence_idx, rank};
  }

  // False when something is wrong that the pieces of shared sequences do not show.
  bool judge_groups(std::span<const std::int32_t> group_of_sequence);
  void judge(std::int32_t sequence_idx, bool has_group, std::span<const PlacedPiece> pieces) const;
  // Every piece, also those that are all of their sequence.
  std::vector<PlacedPiece> all_pieces() const;

  const StepPlan& plan_;
  std::vector<bool> is_covered_;  // [sequences]
  std::size_t num_covered_ = 0;
  std::vector<PlacedPiece> others_;
};

}  // namespace weft
