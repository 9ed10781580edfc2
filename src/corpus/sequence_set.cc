#include "corpus/sequence_set.h"

#include <algorithm>

namespace weft {
namespace {

std::int64_t num_chunks_of(Tokens tokens, Tokens max_context) {
  return (tokens.value() - 1) / max_context.value() + 1;
}

}  // namespace

std::string_view to_string(OverLong policy) {
  return policy == OverLong::kError ? "error" : "split";
}

OverLong parse_over_long(std::string_view text, std::string_view what) {
  if (text == "error") return OverLong::kError;
  if (text == "split") return OverLong::kSplit;
  throw_user_error("{}: expected error or split, got '{}'", what, text);
}

SequenceSet::SequenceSet(const Corpus& corpus, Tokens max_context, OverLong over_long)
    : corpus_(corpus), max_context_(max_context), num_sequences_(corpus.num_documents()) {
  WEFT_USER_CHECK(max_context >= Tokens(1), "max_context: expected at least 1 token, got {}",
                  max_context);
  Tokens longest;
  for (std::int64_t idx = 0; idx < corpus.num_documents(); ++idx) {
    const Tokens tokens = corpus.document(idx).tokens;
    if (tokens > longest) {
      longest = tokens;
      longest_sequence_idx_ = idx;
    }
    if (tokens > max_context) {
      WEFT_USER_CHECK(
          over_long == OverLong::kSplit,
          "document {} of corpus '{}' has {} tokens, max_context is {}: raise max_context, or set "
          "over_long = split to cut such documents into sequences of {} tokens",
          idx, corpus.directory().string(), tokens, max_context, max_context);
      ++num_split_documents_;
    }
  }
  if (num_split_documents_ > 0) split_documents();
}

void SequenceSet::split_documents() {
  first_sequence_.reserve(static_cast<std::size_t>(corpus_.num_documents()) + 1);
  first_sequence_.push_back(0);
  longest_sequence_idx_ = -1;
  for (std::int64_t idx = 0; idx < corpus_.num_documents(); ++idx) {
    const Tokens tokens = corpus_.document(idx).tokens;
    const std::int64_t chunks = num_chunks_of(tokens, max_context_);
    if (tokens >= max_context_ && longest_sequence_idx_ < 0)
      longest_sequence_idx_ = first_sequence_.back();
    if (chunks > 1) num_chunks_ += chunks;
    first_sequence_.push_back(first_sequence_.back() + chunks);
  }
  num_sequences_ = first_sequence_.back();
}

SequenceInfo SequenceSet::sequence(std::int64_t sequence_idx) const {
  WEFT_CHECK(0 <= sequence_idx && sequence_idx < num_sequences_, "sequence {} of {}", sequence_idx,
             num_sequences_);
  std::int64_t document_idx = sequence_idx;
  std::int64_t chunk_idx = 0;
  if (!first_sequence_.empty()) {
    const auto behind =
        std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence_idx);
    document_idx = behind - first_sequence_.begin() - 1;
    chunk_idx = sequence_idx - first_sequence_[static_cast<std::size_t>(document_idx)];
  }
  const std::int64_t document_tokens = corpus_.document(document_idx).tokens.value();
  const std::int64_t begin = chunk_idx * max_context_.value();
  const std::int64_t end = document_tokens - begin > max_context_.value()
                               ? begin + max_context_.value()
                               : document_tokens;
  const bool is_last = end == document_tokens;
  return {document_idx, {begin, end}, end - begin - (is_last ? 1 : 0)};
}

SequenceInfo SequenceSet::checked_sequence(std::int64_t sequence_id, TokenRange range,
                                           std::size_t room) const {
  WEFT_USER_CHECK(sequence_id >= 0, "corpus '{}': unknown sequence id {}: ids are not negative",
                  corpus_.directory().string(), sequence_id);
  const SequenceInfo info = sequence(sequence_id % num_sequences_);
  WEFT_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= info.range.size(),
             "tokens {} of sequence {}, which has {}", range, sequence_id, info.range.size());
  WEFT_CHECK_EQ(room, static_cast<std::size_t>(range.size()), "room for the tokens of a range");
  return info;
}

void SequenceSet::read_tokens(std::int64_t sequence_id, TokenRange range,
                              std::span<TokenId> tokens) const {
  const SequenceInfo info = checked_sequence(sequence_id, range, tokens.size());
  corpus_.read(corpus_.document(info.document_idx).first_token + info.range.begin + range.begin,
               tokens);
}

void SequenceSet::read_targets(std::int64_t sequence_id, TokenRange range,
                               std::span<TokenId> targets) const {
  const SequenceInfo info = checked_sequence(sequence_id, range, targets.size());
  if (range.empty()) return;
  const DocumentInfo document = corpus_.document(info.document_idx);
  const std::int64_t first = info.range.begin + range.begin + 1;  // inside the document
  const bool is_end = info.range.begin + range.end == document.tokens.value();
  corpus_.read(document.first_token + first, targets.first(targets.size() - (is_end ? 1 : 0)));
  if (is_end) targets.back() = kNoTarget;
}

}  // namespace weft
