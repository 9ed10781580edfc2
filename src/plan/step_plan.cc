#include "plan/step_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/huge_pages.h"

namespace weft {

std::int64_t ranks_needed(Tokens tokens, Tokens capacity) {
  if (tokens <= Tokens(0)) return 0;
  return (tokens.value() - 1) / capacity.value() + 1;
}

std::string_view to_string(LossWeighting weighting) {
  switch (weighting) {
    case LossWeighting::kToken:
      return "token";
    case LossWeighting::kSample:
      return "sample";
  }
  throw_internal_error("loss weighting {} has no name", static_cast<int>(weighting));
}

LossWeighting parse_loss_weighting(std::string_view text, std::string_view what) {
  for (const auto weighting : {LossWeighting::kToken, LossWeighting::kSample}) {
    if (text == to_string(weighting)) return weighting;
  }
  throw_user_error("{} is '{}'; expected 'token' or 'sample'", what, text);
}

Tokens MicroBatch::tokens() const {
  Tokens sum;
  for (const Piece& piece : pieces) sum += Tokens(piece.range.size());
  return sum;
}

Tokens StepPlan::capacity_of(Rank rank) const {
  return rank_capacity.empty() ? capacity : rank_capacity[static_cast<std::size_t>(rank.value())];
}

double StepPlan::gap() const {
  if (makespan == lower_bound) return 0;
  if (lower_bound <= Nanoseconds(0)) return std::numeric_limits<double>::infinity();
  return ratio(makespan - lower_bound, lower_bound);
}

std::int64_t total_weight(std::span<const SequenceSpec> sequences, LossWeighting weighting) {
  std::int64_t sum = 0;
  for (const SequenceSpec& sequence : sequences) {
    // In sample mode the targets of a sequence weigh 1 together, when there are any.
    sum += weighting == LossWeighting::kToken ? sequence.num_targets
                                              : std::int64_t{sequence.num_targets > 0};
  }
  return sum;
}

double target_weight(const SequenceSpec& sequence, LossWeighting weighting) {
  if (sequence.num_targets == 0) return 0;
  return weighting == LossWeighting::kToken ? 1.0 : 1.0 / static_cast<double>(sequence.num_targets);
}

double resident_tokens(Tokens tokens, double offload_ratio, std::int32_t num_layers) {
  const double layers = num_layers;
  const double kept = std::min(2.0, layers) + (1 - offload_ratio) * std::max(layers - 2, 0.0);
  return static_cast<double>(tokens.value()) * kept / layers;
}

namespace {

bool is_before(const SequenceSpec& a, const SequenceSpec& b) {
  return a.tokens != b.tokens ? a.tokens > b.tokens : a.id < b.id;
}

// Nearly all sequences are shorter than this: each length has a counter of its own, the longer ones
// share one and are compared.
constexpr std::int64_t kLong = 1 << 14;

std::vector<SequenceSpec> sorted_by_comparison(std::span<const SequenceSpec> sequences) {
  std::vector<SequenceSpec> sorted(sequences.begin(), sequences.end());
  std::sort(sorted.begin(), sorted.end(), is_before);
  return sorted;
}

}  // namespace

void sort_canonically(std::vector<SequenceSpec>& sequences) {
  sequences = sorted_canonically(sequences);
}

std::vector<SequenceSpec> sorted_canonically(std::span<const SequenceSpec> sequences) {
  constexpr std::size_t kFew = 4096;
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (sequences.size() < kFew || sequences.size() > kMost) return sorted_by_comparison(sequences);
  const auto key = [](const SequenceSpec& sequence) {
    return static_cast<std::size_t>(kLong - std::min(kLong, sequence.tokens.value()));
  };
  std::vector<std::uint32_t> places(kLong + 1);
  std::int64_t previous_id = std::numeric_limits<std::int64_t>::min();
  bool is_positive = true;
  bool are_ids_ascending = true;
  for (const SequenceSpec& sequence : sequences) {
    is_positive = is_positive && sequence.tokens > Tokens(0);
    are_ids_ascending = are_ids_ascending && previous_id <= sequence.id;
    previous_id = sequence.id;
    if (is_positive) ++places[key(sequence)];
  }
  if (!is_positive) return sorted_by_comparison(sequences);
  const auto num_long = static_cast<std::ptrdiff_t>(places[0]);
  std::uint32_t before = 0;
  for (std::uint32_t& place : places) before += std::exchange(place, before);
  auto sorted = reserve_large<SequenceSpec>(sequences.size());
  sorted.resize(sequences.size());
  for (const SequenceSpec& sequence : sequences) sorted[places[key(sequence)]++] = sequence;
  std::sort(sorted.begin(), sorted.begin() + num_long, is_before);
  if (are_ids_ascending) return sorted;            // the pass kept them so within a length
  for (std::size_t k = 1; k < places.size(); ++k)  // each place is now the end of its length
    std::sort(sorted.begin() + places[k - 1], sorted.begin() + places[k], is_before);
  return sorted;
}

ZigzagCut::ZigzagCut(Tokens tokens, std::int32_t degree)
    : num_parts_(2 * std::int64_t{degree}),
      least_(tokens.value() / num_parts_),
      num_longer_(tokens.value() % num_parts_) {}

std::array<TokenRange, 2> ZigzagCut::ranges(std::int32_t position) const {
  const auto part = [&](std::int64_t i) {
    const std::int64_t begin = i * least_ + std::min(i, num_longer_);
    return TokenRange{begin, begin + least_ + (i < num_longer_ ? 1 : 0)};
  };
  TokenRange first = part(position);
  TokenRange second = part(num_parts_ - 1 - position);
  if (first.end == second.begin) {
    first.end = second.end;
    second.begin = second.end;
  }
  return {first, second};
}

std::vector<TokenRange> zigzag_ranges(Tokens tokens, std::int32_t degree, std::int32_t position) {
  WEFT_CHECK(tokens >= Tokens(0) && degree >= 1 && position >= 0 && position < degree,
             "zigzag of {} tokens, position {} of {}", tokens, position, degree);
  std::vector<TokenRange> ranges;
  for (const TokenRange range : ZigzagCut(tokens, degree).ranges(position)) {
    if (!range.empty()) ranges.push_back(range);
  }
  return ranges;
}

}  // namespace weft
