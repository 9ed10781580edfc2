#include "plan/sequence_check.h"

#include <algorithm>

#include "base/huge_pages.h"
#include "plan/damage.h"

namespace weft {
namespace {

// causal_work is exact below 2^32 tokens; 2^31 sequences of this size still add up within int64.
constexpr std::int64_t kMaxSequenceTokens = (std::int64_t{1} << 32) - 1;

}  // namespace

std::optional<std::int64_t> repeated_id(std::span<const SequenceSpec> sequences) {
  const auto is_later = [](const SequenceSpec& a, const SequenceSpec& b) { return a.id >= b.id; };
  if (std::adjacent_find(sequences.begin(), sequences.end(), is_later) == sequences.end())
    return std::nullopt;
  const auto [least, most] =
      std::minmax_element(sequences.begin(), sequences.end(),
                          [](const SequenceSpec& a, const SequenceSpec& b) { return a.id < b.id; });
  // Ids that lie close together are marked, others are sorted.
  const std::uint64_t reach =
      static_cast<std::uint64_t>(most->id) - static_cast<std::uint64_t>(least->id);
  if (reach < 64 * sequences.size()) {
    std::vector<bool> is_used(reach + 1);
    for (const SequenceSpec& sequence : sequences) {
      const auto place = static_cast<std::size_t>(sequence.id - least->id);
      if (is_used[place]) return sequence.id;
      is_used[place] = true;
    }
    return std::nullopt;
  }
  std::vector<std::int64_t> ids;
  ids.reserve(sequences.size());
  for (const SequenceSpec& sequence : sequences) ids.push_back(sequence.id);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  return twice == ids.end() ? std::nullopt : std::optional(*twice);
}

std::vector<std::uint32_t> checked_tokens(std::span<const SequenceSpec> sequences) {
  auto lengths = reserve_large<std::uint32_t>(sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const SequenceSpec& sequence = sequences[i];
    if (sequence.tokens < Tokens(1) || sequence.tokens > Tokens(kMaxSequenceTokens)) {
      refuse_plan("bad sequence", "sequence {} (id {}) has {} tokens, expected 1 to {}", i,
                  sequence.id, sequence.tokens, kMaxSequenceTokens);
    }
    if (sequence.num_targets < 0 || sequence.num_targets > sequence.tokens.value()) {
      refuse_plan("bad sequence", "sequence {} (id {}) has {} targets, expected 0 to its {} tokens",
                  i, sequence.id, sequence.num_targets, sequence.tokens);
    }
    lengths.push_back(static_cast<std::uint32_t>(sequence.tokens.value()));
    if (i == 0) continue;
    const SequenceSpec& previous = sequences[i - 1];
    if (previous.tokens < sequence.tokens ||
        (previous.tokens == sequence.tokens && previous.id >= sequence.id)) {
      refuse_plan("sequence order",
                  "sequence {} ({} tokens, id {}) comes after {} tokens, id {}; expected tokens "
                  "descending, then id ascending",
                  i, sequence.tokens, sequence.id, previous.tokens, previous.id);
    }
  }
  if (const auto id = repeated_id(sequences))
    refuse_plan("sequence order", "two sequences have the id {}", *id);
  return lengths;
}

}  // namespace weft
