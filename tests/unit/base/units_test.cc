#include "base/units.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

TEST(Units, CountsParseWithBinarySuffixes) {
  EXPECT_EQ(parse_count("0", "x"), 0);
  EXPECT_EQ(parse_count("4096", "x"), 4096);
  EXPECT_EQ(parse_count("4K", "x"), 4096);
  EXPECT_EQ(parse_count("16m", "x"), 16 << 20);
  EXPECT_EQ(parse_count("2G", "x"), std::int64_t{2} << 30);
}

TEST(Units, MalformedCountsAreRefusedByName) {
  for (const char* text : {"", "K", "4KB", "-1", "1.5K", "4 K", "0x10", "9999999999T"}) {
    try {
      parse_count(text, "plan.capacity");
      FAIL() << "accepted " << text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("plan.capacity"), std::string::npos);
    }
  }
}

TEST(Units, FormattedCountsReadBackExactly) {
  for (const std::int64_t count :
       {0L, 1L, 1023L, 1024L, 4097L, 8192L, 3L << 20, (3L << 20) + 1, 1L << 40}) {
    EXPECT_EQ(parse_count(format_count(count), "x"), count);
  }
}

TEST(Units, QuantitiesAddAndCompare) {
  EXPECT_EQ(10_ms + 1_ms, 11_ms);
  EXPECT_EQ(3 * 4_tok, 12_tok);
  EXPECT_LT(999_us, 1_ms);
  EXPECT_DOUBLE_EQ(ratio(1_ms, 4_ms), 0.25);
}

}  // namespace
}  // namespace weft
