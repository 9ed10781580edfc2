// ByteTokenizer: one token per byte. No vocabulary file, no unknown words, exact round trip of any
// text.
//
// Ids 0..255 are the bytes; 256 is "<|end|>"; 257..263 are "<|reserved_1|>".."<|reserved_7|>", kept
// free so that later special tokens do not change the vocabulary size, and with it the shape of an
// embedding.
#pragma once

#include "corpus/tokenizer.h"

namespace weft {

inline constexpr TokenId kByteEndToken = 256;
inline constexpr std::int32_t kByteVocabSize = 264;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "bytes-1"; }
  std::int32_t vocab_size() const override { return kByteVocabSize; }
  TokenId end_token() const override { return kByteEndToken; }
  std::size_t encode_part(std::string_view text, bool is_last,
                          std::vector<TokenId>& tokens) const override;
  std::string decode(std::span<const TokenId> tokens) const override;
};

}  // namespace weft
