// DataOrder: which sequences each step holds (design section 3 "Data order").
//
// Epoch e visits the sequences in the order of a permutation f(seed, e, index) that is computed,
// never stored. A step takes whole sequences in that order until the next would exceed
// global_batch_tokens. What is left of an epoch is carried into a step with the start of the next
// one, or dropped. Nothing else enters: step k holds the same sequences for any number of ranks,
// capacity and strategy. The whole state is (seed, epoch, position), so resuming costs the same at
// step 1 and at step 100,000.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "corpus/sequence_set.h"

namespace weft {

enum class EpochTail : std::uint8_t { kCarry, kDrop };
std::string_view to_string(EpochTail tail);  // "carry", "drop"
EpochTail parse_epoch_tail(std::string_view text, std::string_view what);

struct DataOrderOptions {
  std::uint64_t seed = 0;
  Tokens global_batch_tokens;  // most tokens of one step; >= the longest sequence
  EpochTail tail = EpochTail::kCarry;
};

struct DataOrderState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  // from 0
  std::int64_t position =
      0;  // in the epoch's order: the next sequence to take, < number of sequences
  friend bool operator==(const DataOrderState&, const DataOrderState&) = default;
};

struct OrderedSequence {
  std::int64_t id = 0;  // epoch * sequences.size() + index: unique over all steps
  Tokens tokens;
  std::int64_t num_targets = 0;
  friend bool operator==(const OrderedSequence&, const OrderedSequence&) = default;
};

// Not thread-safe; a copy is independent.
class DataOrder {
 public:
  // REQUIRES: the set outlives the order. UserError when a sequence is longer than
  // global_batch_tokens, or when the whole corpus is shorter and tails are dropped (no step could
  // ever be complete).
  DataOrder(const SequenceSet& sequences, const DataOrderOptions& options);

  // In order of the permutation; never empty.
  std::vector<OrderedSequence> next_step();

  const DataOrderState& state() const { return state_; }
  // Goes on from there. UserError when it cannot belong to this set of sequences.
  void set_state(const DataOrderState& state);

  // Sequences that dropped tails have left out since construction.
  std::int64_t num_dropped_sequences() const { return num_dropped_sequences_; }
  // Steps that take their first sequence from epoch 0. Reads every length once.
  std::int64_t steps_in_first_epoch() const;

 private:
  std::int64_t sequence_idx_at(const DataOrderState& state) const;
  void advance();  // one position

  const SequenceSet* sequences_;
  DataOrderOptions options_;
  DataOrderState state_;
  Permutation permutation_;  // of state_.epoch
  std::int64_t num_dropped_sequences_ = 0;
};

}  // namespace weft
