#include "plan/cover_check.h"

#include <algorithm>
#include <numeric>

#include "plan/damage.h"

namespace weft {
namespace {

// Sorts by key(item) < num_keys in place, then by begin; what it returns are the [num_keys + 1]
// places of the keys.
template <class Item>
std::vector<std::uint32_t> sort_into_buckets(std::vector<Item>& items, std::size_t num_keys,
                                             const auto& key) {
  std::vector<std::uint32_t> first(num_keys + 1);
  for (const Item& item : items) ++first[key(item) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
  for (std::size_t k = 0; k < num_keys; ++k) {
    while (next[k] < first[k + 1]) {
      const std::size_t own = key(items[next[k]]);
      if (own == k) {
        ++next[k];
      } else {
        std::swap(items[next[k]], items[next[own]++]);
      }
    }
    std::sort(items.begin() + first[k], items.begin() + first[k + 1],
              [](const Item& a, const Item& b) {
                return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
              });
  }
  return first;
}

}  // namespace

void CoverCheck::judge(std::int32_t sequence_idx, bool has_group,
                       std::span<const PlacedPiece> pieces) const {
  const SequenceSpec& sequence = plan_.sequences[static_cast<std::size_t>(sequence_idx)];
  std::int64_t covered = 0;
  const auto refuse_gap = [&](std::int64_t end) {
    refuse_plan("token missing", "no rank holds {} of sequence {} (id {}, {} tokens)",
                TokenRange{covered, end}, sequence_idx, sequence.id, sequence.tokens);
  };
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const PlacedPiece& piece = pieces[p];
    if (piece.range().begin < covered) {
      refuse_plan("token twice", "sequence {} (id {}): rank {} holds {} and rank {} holds {}",
                  sequence_idx, sequence.id, pieces[p - 1].rank, pieces[p - 1].range(), piece.rank,
                  piece.range());
    }
    if (piece.range().begin > covered) refuse_gap(piece.range().begin);
    covered = piece.range().end;
  }
  if (covered < sequence.tokens.value()) refuse_gap(sequence.tokens.value());
  if (!has_group && pieces.size() > 1) {
    refuse_plan(
        "sequence in two groups",
        "sequence {} (id {}) has no group, but is split into {} pieces (rank {} holds {}, rank {} "
        "holds {})",
        sequence_idx, sequence.id, pieces.size(), pieces[0].rank, pieces[0].range(), pieces[1].rank,
        pieces[1].range());
  }
}

void CoverCheck::judge(std::span<const std::int32_t> group_of_sequence) {
  if (judge_groups(group_of_sequence)) return;
  // Something is wrong: found with all pieces at hand, sequence by sequence.
  others_ = all_pieces();
  const auto first = sort_into_buckets(
      others_, plan_.sequences.size(),
      [](const PlacedPiece& piece) { return static_cast<std::size_t>(piece.sequence_idx); });
  for (std::size_t s = 0; s < plan_.sequences.size(); ++s) {
    judge(static_cast<std::int32_t>(s),
          s < group_of_sequence.size() && group_of_sequence[s] != kNoGroup,
          std::span(others_).subspan(first[s], first[s + 1] - first[s]));
  }
}

bool CoverCheck::judge_groups(std::span<const std::int32_t> group_of_sequence) {
  const auto is_shared = [&](const PlacedPiece& piece) {
    const auto s = static_cast<std::size_t>(piece.sequence_idx);
    return !is_covered_[s] && s < group_of_sequence.size() && group_of_sequence[s] != kNoGroup;
  };
  // With all these and all shared sequences found whole, there is no other.
  if (num_covered_ + plan_.groups.size() != plan_.sequences.size() ||
      !std::all_of(others_.begin(), others_.end(), is_shared))
    return false;
  const auto first = sort_into_buckets(others_, plan_.groups.size(), [&](const PlacedPiece& piece) {
    return static_cast<std::size_t>(
        group_of_sequence[static_cast<std::size_t>(piece.sequence_idx)]);
  });
  for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
    judge(plan_.groups[g].sequence_idx, true,
          std::span(others_).subspan(first[g], first[g + 1] - first[g]));
  }
  return true;
}

std::vector<CoverCheck::PlacedPiece> CoverCheck::all_pieces() const {
  std::vector<PlacedPiece> pieces;
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
    for (const MicroBatch& micro_batch : plan_.ranks[r]) {
      for (const Piece& piece : micro_batch.pieces)
        pieces.push_back(placed(static_cast<std::int32_t>(r), piece));
    }
  }
  return pieces;
}

}  // namespace weft
