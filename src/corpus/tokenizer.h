// Tokenizer: text to token ids and back. A seam: bytes now, byte-pair vocabularies later.
//
// Text arrives in parts, because a document may be larger than memory. encode_part() may leave the
// end of a part unread when its tokens depend on what follows; the caller presents that rest again
// in front of the next part. A tokenizer never emits end_token() for text: the corpus writer adds
// exactly one to each document. Immutable, so safe to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/sequence_source.h"

namespace weft {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;    // names the exact mapping; part of the corpus hash
  virtual std::int32_t vocab_size() const = 0;  // every id is in [0, vocab_size)
  virtual TokenId end_token() const = 0;        // ends each document
  // Appends the tokens of valid UTF-8 `text` to `tokens` and returns how many of its bytes they
  // stand for: all of them when `is_last`.
  virtual std::size_t encode_part(std::string_view text, bool is_last,
                                  std::vector<TokenId>& tokens) const = 0;
  // The bytes that the tokens stand for; special tokens by their name. UserError for an id outside
  // the vocabulary.
  virtual std::string decode(std::span<const TokenId> tokens) const = 0;

  void encode(std::string_view text, std::vector<TokenId>& tokens) const {
    encode_part(text, true, tokens);
  }
};

}  // namespace weft
