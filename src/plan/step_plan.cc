#include "plan/step_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

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

// One stable pass by `bits` bits of the length from `shift` on, longest first.
void pass_by_length(const std::vector<SequenceSpec>& from, std::vector<SequenceSpec>& to, int shift,
                    int bits) {
  const std::size_t num_keys = std::size_t{1} << bits;
  std::vector<std::size_t> next(num_keys + 1);
  const auto key = [&](const SequenceSpec& sequence) {
    const auto digits = static_cast<std::size_t>(sequence.tokens.value() >> shift);
    return num_keys - 1 - (digits & (num_keys - 1));
  };
  for (const SequenceSpec& sequence : from) ++next[key(sequence) + 1];
  for (std::size_t k = 0; k < num_keys; ++k) next[k + 1] += next[k];
  for (const SequenceSpec& sequence : from) to[next[key(sequence)]++] = sequence;
}

}  // namespace

void sort_canonically(std::vector<SequenceSpec>& sequences) {
  constexpr int kBits = 11;
  constexpr std::size_t kFewForPasses = 4096;
  std::int64_t all_bits = 0;
  bool are_ids_ascending = true;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    all_bits |= sequences[i].tokens.value();
    are_ids_ascending = are_ids_ascending && (i == 0 || sequences[i - 1].id < sequences[i].id);
  }
  // Stable passes keep ascending ids ascending within a length.
  if (sequences.size() < kFewForPasses || !are_ids_ascending || all_bits < 0) {
    std::sort(sequences.begin(), sequences.end(), is_before);
    return;
  }
  std::vector<SequenceSpec> other(sequences.size());
  for (int shift = 0; shift < 63 && all_bits >> shift != 0; shift += kBits) {
    pass_by_length(sequences, other, shift, kBits);
    sequences.swap(other);
  }
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
