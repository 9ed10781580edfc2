// MemorySource: a SequenceSource whose documents a test writes down.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "corpus/sequence_source.h"
#include "plan/step_plan.h"

namespace weft::testing {

class MemorySource : public SequenceSource {
 public:
  struct Document {
    std::vector<TokenId> tokens;
    std::vector<TokenId> targets;  // same length; kNoTarget where there is none
  };

  // Every token predicts the next one; the last predicts nothing.
  static Document document(std::vector<TokenId> tokens) {
    Document document{tokens, std::vector<TokenId>(tokens.begin() + 1, tokens.end())};
    document.targets.push_back(kNoTarget);
    return document;
  }

  // Random tokens in [first, first + vocab), the same for the same seed, id and length.
  static Document random_document(std::uint64_t seed, std::int64_t id, std::int64_t length,
                                  std::int64_t vocab, std::int64_t first = 0) {
    const RandomStream stream(seed, fmt::format("document {}", id));
    std::vector<TokenId> tokens;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::uint64_t token =
          stream.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab));
      tokens.push_back(static_cast<TokenId>(first + static_cast<std::int64_t>(token)));
    }
    return document(std::move(tokens));
  }

  // Takes targets away from `document` outside `kept`.
  static Document masked(Document document, TokenRange kept) {
    for (std::size_t i = 0; i < document.targets.size(); ++i) {
      if (!kept.contains(static_cast<std::int64_t>(i))) document.targets[i] = kNoTarget;
    }
    return document;
  }

  void add(std::int64_t id, Document document) { documents_[id] = std::move(document); }

  const Document& at(std::int64_t id) const {
    const auto found = documents_.find(id);
    WEFT_USER_CHECK(found != documents_.end(), "memory source: no sequence {}", id);
    return found->second;
  }

  // Of all documents, in canonical order: what a planner is given.
  std::vector<SequenceSpec> specs() const {
    std::vector<SequenceSpec> specs;
    for (const auto& [id, document] : documents_) specs.push_back(spec(id, document));
    sort_canonically(specs);
    return specs;
  }

  void read_tokens(std::int64_t sequence_id, TokenRange range,
                   std::span<TokenId> tokens) const override {
    copy(at(sequence_id).tokens, range, tokens);
  }
  void read_targets(std::int64_t sequence_id, TokenRange range,
                    std::span<TokenId> targets) const override {
    copy(at(sequence_id).targets, range, targets);
  }

 private:
  static SequenceSpec spec(std::int64_t id, const Document& document) {
    const auto without = std::count(document.targets.begin(), document.targets.end(), kNoTarget);
    const auto length = static_cast<std::int64_t>(document.tokens.size());
    return {.id = id, .tokens = Tokens(length), .num_targets = length - without};
  }
  static void copy(const std::vector<TokenId>& from, TokenRange range, std::span<TokenId> to) {
    WEFT_CHECK(range.begin >= 0 && range.end <= static_cast<std::int64_t>(from.size()) &&
                   range.size() == static_cast<std::int64_t>(to.size()),
               "range {} of a sequence of {} tokens into {} places", range, from.size(), to.size());
    std::copy(from.begin() + range.begin, from.begin() + range.end, to.begin());
  }

  std::map<std::int64_t, Document> documents_;
};

}  // namespace weft::testing
