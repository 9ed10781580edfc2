// SequenceSet: the sequences of a corpus, which are its documents after the over-long policy
// (design section 3).
//
// Sequence indices follow the documents' order; a document longer than max_context is refused, or
// split in chunks of max_context tokens and a rest. Targets are decided here, from whole documents:
// the last token of a document predicts nothing, the last token of a chunk predicts the first of
// the next. So no target is lost by splitting.
//
// A sequence id, as plans carry it, is epoch * size() + index, so that a step may cross the edge of
// an epoch and still have unique ids. Memory: 8 bytes per document if any is split, nothing
// otherwise. Immutable and thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "corpus/corpus.h"
#include "corpus/sequence_source.h"

namespace weft {

enum class OverLong : std::uint8_t { kError, kSplit };
std::string_view to_string(OverLong policy);  // "error", "split"
OverLong parse_over_long(std::string_view text, std::string_view what);

struct SequenceInfo {
  std::int64_t document_idx = 0;
  TokenRange range;              // inside the document
  std::int64_t num_targets = 0;  // tokens that predict another one
  Tokens tokens() const { return Tokens(range.size()); }
  friend bool operator==(const SequenceInfo&, const SequenceInfo&) = default;
};

class SequenceSet final : public SequenceSource {
 public:
  // REQUIRES: the corpus outlives the set. max_context >= 1. UserError under kError for a longer
  // document.
  SequenceSet(const Corpus& corpus, Tokens max_context, OverLong over_long);

  std::int64_t size() const { return num_sequences_; }
  Tokens num_tokens() const { return corpus_.num_tokens(); }
  SequenceInfo sequence(std::int64_t sequence_idx) const;                      // O(log documents)
  std::int64_t longest_sequence_idx() const { return longest_sequence_idx_; }  // the first of them
  std::int64_t num_split_documents() const { return num_split_documents_; }
  std::int64_t num_chunks() const { return num_chunks_; }  // that the split documents became
  const Corpus& corpus() const { return corpus_; }

  void read_tokens(std::int64_t sequence_id, TokenRange range,
                   std::span<TokenId> tokens) const override;
  void read_targets(std::int64_t sequence_id, TokenRange range,
                    std::span<TokenId> targets) const override;

 private:
  SequenceInfo checked_sequence(std::int64_t sequence_id, TokenRange range, std::size_t room) const;
  void split_documents();

  const Corpus& corpus_;
  Tokens max_context_;
  std::vector<std::int64_t> first_sequence_;  // [documents + 1]; empty when no document is split
  std::int64_t num_sequences_ = 0;
  std::int64_t longest_sequence_idx_ = 0;
  std::int64_t num_split_documents_ = 0;
  std::int64_t num_chunks_ = 0;
};

}  // namespace weft
