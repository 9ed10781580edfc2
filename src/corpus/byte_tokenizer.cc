#include "corpus/byte_tokenizer.h"

#include "base/error.h"

namespace weft {

std::size_t ByteTokenizer::encode_part(std::string_view text, bool /*is_last*/,
                                       std::vector<TokenId>& tokens) const {
  const std::size_t start = tokens.size();
  tokens.resize(start + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    tokens[start + i] = static_cast<unsigned char>(text[i]);
  }
  return text.size();
}

std::string ByteTokenizer::decode(std::span<const TokenId> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const TokenId token : tokens) {
    WEFT_USER_CHECK(0 <= token && token < kByteVocabSize,
                    "tokenizer {}: token id {} is outside its vocabulary of {} ids", name(), token,
                    kByteVocabSize);
    if (token < kByteEndToken) {
      text += static_cast<char>(token);
    } else if (token == kByteEndToken) {
      text += "<|end|>";
    } else {
      text += fmt::format("<|reserved_{}|>", token - kByteEndToken);
    }
  }
  return text;
}

}  // namespace weft
