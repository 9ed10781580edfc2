// SequenceSource: where the tokens of a planned sequence come from. A seam: the corpus on disk, or
// memory in tests.
#pragma once

#include <cstdint>
#include <span>

#include "base/token_range.h"

namespace weft {

using TokenId = std::int32_t;
inline constexpr TokenId kNoTarget = -1;

// Thread-safe for concurrent reads.
class SequenceSource {
 public:
  virtual ~SequenceSource() = default;

  // tokens[i] = token at position range.begin + i of sequence `sequence_id` (SequenceSpec::id).
  // REQUIRES: range inside the sequence, tokens.size() == range.size(). Throws UserError for an
  // unknown id.
  virtual void read_tokens(std::int64_t sequence_id, TokenRange range,
                           std::span<TokenId> tokens) const = 0;

  // targets[i] = the token that position range.begin + i must predict, or kNoTarget. Decided from
  // the whole document before sharding: the last token of a document predicts nothing, the last
  // token of a split chunk predicts the first token of the next chunk.
  virtual void read_targets(std::int64_t sequence_id, TokenRange range,
                            std::span<TokenId> targets) const = 0;
};

}  // namespace weft
