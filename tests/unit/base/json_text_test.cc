#include "base/json_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "base/chrome_trace.h"

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

TEST(JsonNumber, ReadsBackExactlyAndIsNullForWhatJsonCannotSay) {
  for (const double value : {0.0, -1.5, 1.0 / 3, 1e300, 5e-324}) {
    EXPECT_EQ(std::strtod(json_number(value).c_str(), nullptr), value);
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (const double value : {inf, -inf, inf - inf}) EXPECT_EQ(json_number(value), "null");
}

TEST(ChromeTrace, EventsAreObjectsWithTimesInMicrosecondsAndEscapedNames) {
  EXPECT_EQ(chrome_event({.name = "a \"b\"",
                          .category = "c",
                          .process = 2,
                          .thread = 3,
                          .start_ns = 1'500,
                          .duration_ns = 2'000'000,
                          .arguments = R"("slot":7)"}),
            R"({"name":"a \"b\"","cat":"c","ph":"X","ts":1.500,"dur":2000.000,)"
            R"("pid":2,"tid":3,"args":{"slot":7}})");
  EXPECT_EQ(chrome_process_name(1, "rank 1"),
            R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"rank 1"}})");
  EXPECT_EQ(chrome_thread_name(1, 2, "stage\n2"),
            R"({"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"stage\u000a2"}})");
}

}  // namespace
}  // namespace weft
