#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/utf8_text.h"

namespace weft {
namespace {

TEST(ByteTokenizerTest, EveryByteIsItsOwnTokenAndComesBack) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  std::vector<TokenId> tokens;
  ByteTokenizer().encode(text, tokens);
  ASSERT_EQ(tokens.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(tokens[static_cast<std::size_t>(byte)], byte);
  EXPECT_EQ(ByteTokenizer().decode(tokens), text);
}

TEST(ByteTokenizerTest, EncodingAppendsToWhatIsThere) {
  std::vector<TokenId> tokens = {7};
  ByteTokenizer().encode("ab", tokens);
  ByteTokenizer().encode("", tokens);
  EXPECT_THAT(tokens, testing::ElementsAre(7, 'a', 'b'));
}

TEST(ByteTokenizerTest, SpecialTokensHaveNamesAndOthersAreRefused) {
  const std::vector<TokenId> special = {'x', 256, 257, 263};
  EXPECT_EQ(ByteTokenizer().decode(special), "x<|end|><|reserved_1|><|reserved_7|>");
  for (const TokenId id : {-1, 264}) {
    EXPECT_THROW(ByteTokenizer().decode(std::vector<TokenId>{id}), UserError) << id;
  }
}

TEST(Utf8TextTest, ACodePointCutAnywhereIsHeldBackWhole) {
  for (const std::string_view point : {"a", "é", "漢", "😀"}) {
    const std::string text = "xy" + std::string(point);
    EXPECT_EQ(complete_utf8_prefix(text), text.size());
    for (std::size_t cut = 1; cut < point.size(); ++cut) {
      EXPECT_EQ(complete_utf8_prefix(text.substr(0, 2 + cut)), 2u) << point << " cut at " << cut;
    }
  }
  EXPECT_EQ(complete_utf8_prefix(""), 0u);
}

TEST(Utf8TextTest, BytesThatStartNoCodePointAreNotHeldBack) {
  for (const std::string_view bytes :
       {"\xff", "a\x80", "\x80\x80\x80", "a\xc1", "a\xf5", "\xf0\x9f\x98\x80\x80"}) {
    EXPECT_EQ(complete_utf8_prefix(bytes), bytes.size());
  }
}

TEST(Utf8TextTest, TheFirstFlawIsFoundAtItsPlace) {
  struct Case {
    std::string text;
    BadRecordReason reason;
    std::size_t position;
  };
  const std::string nul(1, '\0');
  for (const Case& c : {Case{"ab\xff", BadRecordReason::kInvalidUtf8, 2},
                        Case{"é\xc3", BadRecordReason::kInvalidUtf8, 2},
                        Case{"\xed\xa0\x80", BadRecordReason::kInvalidUtf8, 0},  // a surrogate
                        Case{"\xc0\x80", BadRecordReason::kInvalidUtf8, 0},      // an overlong NUL
                        Case{"\xf4\x90\x80\x80", BadRecordReason::kInvalidUtf8, 0},
                        Case{"a" + nul + "\xff", BadRecordReason::kBinary, 1},
                        Case{"a\xff" + nul, BadRecordReason::kInvalidUtf8, 1},
                        Case{"abc" + nul, BadRecordReason::kBinary, 3}}) {
    const auto flaw = find_text_flaw(c.text);
    ASSERT_TRUE(flaw.has_value()) << c.text;
    EXPECT_EQ(flaw->reason, c.reason) << c.text;
    EXPECT_EQ(flaw->position, c.position) << c.text;
  }
  EXPECT_FALSE(find_text_flaw("fine é 漢 😀").has_value());
  EXPECT_FALSE(find_text_flaw("").has_value());
}

}  // namespace
}  // namespace weft
