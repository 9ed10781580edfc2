#include "plan/cover_check.h"

#include <algorithm>
#include <vector>

#include "plan/damage.h"

namespace weft {
namespace {

// One piece and where it lies, for the check that the pieces of a sequence cover it once.
struct PlacedPiece {
  TokenRange range;
  std::int32_t rank = 0;
};

void check_cover_of(const StepPlan& plan, std::int32_t sequence_idx, bool has_group,
                    std::span<const PlacedPiece> pieces) {
  const SequenceSpec& sequence = plan.sequences[static_cast<std::size_t>(sequence_idx)];
  std::int64_t covered = 0;
  const auto refuse_gap = [&](std::int64_t end) {
    refuse_plan("token missing", "no rank holds {} of sequence {} (id {}, {} tokens)",
                TokenRange{covered, end}, sequence_idx, sequence.id, sequence.tokens);
  };
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const PlacedPiece& piece = pieces[p];
    if (piece.range.begin < covered) {
      refuse_plan("token twice", "sequence {} (id {}): rank {} holds {} and rank {} holds {}",
                  sequence_idx, sequence.id, pieces[p - 1].rank, pieces[p - 1].range, piece.rank,
                  piece.range);
    }
    if (piece.range.begin > covered) refuse_gap(piece.range.begin);
    covered = piece.range.end;
  }
  if (covered < sequence.tokens.value()) refuse_gap(sequence.tokens.value());
  if (!has_group && pieces.size() > 1) {
    refuse_plan(
        "sequence in two groups",
        "sequence {} (id {}) has no group, but is split into {} pieces (rank {} holds {}, rank {} "
        "holds {})",
        sequence_idx, sequence.id, pieces.size(), pieces[0].rank, pieces[0].range, pieces[1].rank,
        pieces[1].range);
  }
}

}  // namespace

// Most sequences are one piece that is all of them. The pieces of the others are bucketed by
// sequence, then sorted inside each: a sequence has few pieces, a plan can have millions.
void check_cover(const StepPlan& plan, std::span<const std::int32_t> group_of_sequence) {
  std::vector<std::uint8_t> is_covered(plan.sequences.size());
  std::vector<std::uint32_t> first(plan.sequences.size() + 1);
  const auto is_all_of_it = [&](const Piece& piece) {
    return piece.range ==
           TokenRange{0,
                      plan.sequences[static_cast<std::size_t>(piece.sequence_idx)].tokens.value()};
  };
  const auto for_each_piece = [&](const auto& visit) {
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      for (const MicroBatch& micro_batch : plan.ranks[r]) {
        for (const Piece& piece : micro_batch.pieces)
          visit(r, piece, static_cast<std::size_t>(piece.sequence_idx));
      }
    }
  };
  std::size_t num_covered = 0;
  for_each_piece([&](std::size_t, const Piece& piece, std::size_t sequence) {
    if (is_covered[sequence] == 0 && is_all_of_it(piece)) {
      is_covered[sequence] = 1;
      ++num_covered;
    } else {
      ++first[sequence + 1];
    }
  });
  // A second piece of a covered sequence is damage, found below with all pieces at hand.
  bool is_twice = false;
  for (std::size_t s = 0; s < plan.sequences.size(); ++s)
    is_twice = is_twice || (is_covered[s] != 0 && first[s + 1] > 0);
  if (is_twice) {
    std::fill(is_covered.begin(), is_covered.end(), std::uint8_t{0});
    std::fill(first.begin(), first.end(), 0U);
    for_each_piece([&](std::size_t, const Piece&, std::size_t sequence) { ++first[sequence + 1]; });
  } else if (num_covered == plan.sequences.size()) {
    return;
  }
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) first[s + 1] += first[s];
  std::vector<PlacedPiece> placed(first.back());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for_each_piece([&](std::size_t rank, const Piece& piece, std::size_t sequence) {
    if (is_covered[sequence] != 0) return;
    placed[next[sequence]++] = {piece.range, static_cast<std::int32_t>(rank)};
  });
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    if (is_covered[s] != 0) continue;
    const auto pieces = std::span(placed).subspan(first[s], first[s + 1] - first[s]);
    std::sort(pieces.begin(), pieces.end(),
              [](const PlacedPiece& a, const PlacedPiece& b) { return a.range < b.range; });
    check_cover_of(plan, static_cast<std::int32_t>(s), group_of_sequence[s] != kNoGroup, pieces);
  }
}

}  // namespace weft
