#include "corpus/data_order.h"

#include <limits>

namespace weft {
namespace {

constexpr std::int64_t kMostEpochsPerStep = 1000;

Permutation permutation_of(const DataOrderState& state, std::int64_t size) {
  return {state.seed, fmt::format("data order of epoch {}", state.epoch),
          static_cast<std::uint64_t>(size)};
}

}  // namespace

std::string_view to_string(EpochTail tail) { return tail == EpochTail::kCarry ? "carry" : "drop"; }

EpochTail parse_epoch_tail(std::string_view text, std::string_view what) {
  if (text == "carry") return EpochTail::kCarry;
  if (text == "drop") return EpochTail::kDrop;
  throw_user_error("{}: expected carry or drop, got '{}'", what, text);
}

DataOrder::DataOrder(const SequenceSet& sequences, const DataOrderOptions& options)
    : sequences_(&sequences),
      options_(options),
      state_{options.seed, 0, 0},
      permutation_(permutation_of(state_, sequences.size())) {
  const Tokens batch = options.global_batch_tokens;
  WEFT_USER_CHECK(batch >= Tokens(1), "global_batch_tokens: expected at least 1 token, got {}",
                  batch);
  const SequenceInfo longest = sequences.sequence(sequences.longest_sequence_idx());
  WEFT_USER_CHECK(
      longest.tokens() <= batch,
      "sequence {} (document {}, tokens {}) has {} tokens, global_batch_tokens is {}: raise "
      "global_batch_tokens, or lower max_context with over_long = split",
      sequences.longest_sequence_idx(), longest.document_idx, longest.range, longest.tokens(),
      batch);
  // A step of endless epochs would be gathered until memory ends.
  WEFT_USER_CHECK(
      batch.value() / kMostEpochsPerStep <= sequences.num_tokens().value(),
      "global_batch_tokens is {}, but the whole corpus has {} tokens: one step would take "
      "more than {} epochs of it; lower global_batch_tokens",
      batch, sequences.num_tokens(), kMostEpochsPerStep);
  WEFT_USER_CHECK(
      options.tail == EpochTail::kCarry || sequences.num_tokens() >= batch,
      "the corpus has {} tokens, global_batch_tokens is {}: with tail = drop no step would ever be "
      "complete; lower global_batch_tokens or set tail = carry",
      sequences.num_tokens(), batch);
}

std::vector<OrderedSequence> DataOrder::next_step() {
  std::vector<OrderedSequence> step;
  Tokens tokens;
  std::int64_t epoch = state_.epoch;
  for (;;) {
    if (options_.tail == EpochTail::kDrop && state_.epoch != epoch) {
      if (tokens == options_.global_batch_tokens) return step;
      num_dropped_sequences_ += static_cast<std::int64_t>(step.size());
      step.clear();
      tokens = Tokens(0);
      epoch = state_.epoch;
    }
    const std::int64_t sequence_idx = sequence_idx_at(state_);
    const SequenceInfo info = sequences_->sequence(sequence_idx);
    if (tokens + info.tokens() > options_.global_batch_tokens) return step;
    step.push_back(
        {state_.epoch * sequences_->size() + sequence_idx, info.tokens(), info.num_targets});
    tokens += info.tokens();
    advance();
  }
}

std::int64_t DataOrder::sequence_idx_at(const DataOrderState& state) const {
  return static_cast<std::int64_t>(permutation_(static_cast<std::uint64_t>(state.position)));
}

void DataOrder::advance() {
  if (++state_.position < sequences_->size()) return;
  state_ = {state_.seed, state_.epoch + 1, 0};
  permutation_ = permutation_of(state_, sequences_->size());
}

void DataOrder::set_state(const DataOrderState& state) {
  const std::int64_t size = sequences_->size();
  const std::int64_t last_epoch = std::numeric_limits<std::int64_t>::max() / size - 1;
  WEFT_USER_CHECK(
      0 <= state.position && state.position < size && 0 <= state.epoch && state.epoch <= last_epoch,
      "cannot resume the data order at epoch {}, position {}: the corpus has {} sequences; it is "
      "not the "
      "one that this state was saved with, or max_context has changed",
      state.epoch, state.position, size);
  state_ = state;
  permutation_ = permutation_of(state_, size);
}

std::int64_t DataOrder::steps_in_first_epoch() const {
  DataOrder order(*sequences_, options_);
  order.set_state({state_.seed, 0, 0});
  std::int64_t steps = 0;
  Tokens tokens;  // of the step being filled
  for (; order.state_.epoch == 0; order.advance()) {
    const Tokens next = sequences_->sequence(order.sequence_idx_at(order.state_)).tokens();
    if (tokens + next > options_.global_batch_tokens) {
      ++steps;
      tokens = Tokens(0);
    }
    tokens += next;
  }
  const bool is_last_complete =
      options_.tail == EpochTail::kCarry || tokens == options_.global_batch_tokens;
  return steps + (is_last_complete ? 1 : 0);
}

}  // namespace weft
