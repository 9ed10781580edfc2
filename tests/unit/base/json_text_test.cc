#include "base/json_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const std::string kReplaced = "\xef\xbf\xbd";

TEST(JsonString, QuotesAndEscapesWhatJsonAsksFor) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("plain"), "\"plain\"");
  EXPECT_EQ(json_string("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(json_string(std::string_view("\0\n\x1f", 3)), "\"\\u0000\\u000a\\u001f\"");
  EXPECT_EQ(json_string("\x7f/"), "\"\x7f/\"");
}

TEST(JsonString, KeepsCodePointsOfEverySizeAtTheirEdges) {
  for (const std::string text :
       {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(json_string(text), "\"" + text + "\"");
  }
}

TEST(JsonString, ReplacesBytesThatAreNoCodePoint) {
  EXPECT_EQ(json_string("a\xff"
                        "b"),
            "\"a" + kReplaced + "b\"");
  for (const std::string lead : {"\xc3", "\xe6\xbc", "\xf0\x9f\x98"}) {
    std::string expected = "\"";
    for (std::size_t i = 0; i < lead.size(); ++i) expected += kReplaced;
    EXPECT_EQ(json_string(lead), expected + "\"") << "cut after " << lead.size() << " bytes";
    EXPECT_EQ(json_string(lead + "x"), expected + "x\"") << "cut after " << lead.size() << " bytes";
  }
  // Overlong, surrogate, beyond U+10FFFF, continuation without a lead.
  for (const std::string text :
       {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80"}) {
    std::string expected = "\"";
    for (std::size_t i = 0; i < text.size(); ++i) expected += kReplaced;
    EXPECT_EQ(json_string(text), expected + "\"");
  }
}

}  // namespace
}  // namespace weft
