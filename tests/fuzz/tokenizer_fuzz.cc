// The byte tokenizer: texts in parts, and ids. First byte: where the text is cut; the rest is the
// text, and also read as 32-bit ids.
#include <cstring>

#include "corpus/byte_tokenizer.h"
#include "corpus/utf8_text.h"
#include "tests/fuzz/fuzz_input.h"

namespace weft::fuzz {

void run_target(Input input) {
  if (input.empty()) return;
  const std::string_view text = as_text(input.subspan(1));
  const std::size_t cut = std::min(std::to_integer<std::size_t>(input[0]), text.size());
  const ByteTokenizer tokenizer;
  std::vector<TokenId> whole;
  tokenizer.encode(text, whole);
  std::vector<TokenId> parts;
  const std::size_t used = tokenizer.encode_part(text.substr(0, cut), false, parts);
  tokenizer.encode_part(text.substr(used), true, parts);
  WEFT_CHECK(parts == whole, "another {} tokens in two parts", parts.size());
  WEFT_CHECK(tokenizer.decode(whole) == text, "another text of {} bytes", text.size());
  for (const TokenId token : whole) {
    WEFT_CHECK(0 <= token && token < tokenizer.vocab_size() && token != tokenizer.end_token(),
               "token {}", token);
  }

  const std::size_t complete = complete_utf8_prefix(text);
  WEFT_CHECK(complete <= text.size() && text.size() - complete <= 3, "{} of {}", complete,
             text.size());
  if (const auto flaw = find_text_flaw(text)) {
    WEFT_CHECK(flaw->position < text.size() && !describe_flaw(*flaw, text).empty(), "{}",
               flaw->position);
  }

  std::vector<TokenId> ids(text.size() / sizeof(TokenId));
  if (!ids.empty()) std::memcpy(ids.data(), text.data(), ids.size() * sizeof(TokenId));
  value_or_refusal([&] { return tokenizer.decode(ids); });
}

}  // namespace weft::fuzz
