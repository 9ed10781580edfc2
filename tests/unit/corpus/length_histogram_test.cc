#include "corpus/length_histogram.h"

#include "unit/corpus/corpus_fixture.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(LengthHistogramTest, PowersOfTwoBeginTheirBuckets) {
  LengthHistogram histogram;
  for (const std::int64_t length : {1, 2, 3, 4, 7, 8}) histogram.add(Tokens(length));
  EXPECT_THAT(histogram.buckets(),
              ElementsAre(LengthBucket{1, Tokens(1)}, LengthBucket{2, Tokens(5)},
                          LengthBucket{2, Tokens(11)}, LengthBucket{1, Tokens(8)}));
  EXPECT_EQ(histogram.num_samples(), 6);
  EXPECT_EQ(histogram.num_tokens(), Tokens(25));
}

TEST(LengthHistogramTest, LengthsBeyondThirtyTwoBitsHaveTheirBucket) {
  LengthHistogram histogram;
  histogram.add(Tokens((std::int64_t{1} << 40) - 1));
  histogram.add(Tokens(std::int64_t{1} << 40));
  EXPECT_EQ(histogram.buckets().size(), 41u);
  EXPECT_EQ(histogram.buckets()[40].num_samples, 1);
  EXPECT_EQ(histogram.buckets()[39].num_samples, 1);
}

TEST(LengthHistogramTest, TheTableHasALinePerBucketAndEveryShareShows) {
  LengthHistogram histogram;
  for (int i = 0; i < 9'999; ++i) histogram.add(Tokens(5));
  histogram.add(Tokens(70));
  const std::string table = format_histogram(histogram, 100);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 5) << table;
  EXPECT_THAT(table, HasSubstr("64 ..  <128"));
  EXPECT_THAT(table, HasSubstr("100.0%"));
  EXPECT_THAT(table, HasSubstr("▏")) << "a small share is told from none";
  EXPECT_THAT(table, Not(HasSubstr(" 2 ..")));
}

TEST(LengthHistogramTest, NoLineIsWiderThanTheTerminal) {
  LengthHistogram histogram;
  for (int k = 0; k < 45; ++k) histogram.add(Tokens((std::int64_t{1} << k) + k));
  for (const int columns : {80, 100, 200}) {
    const std::string table = format_histogram(histogram, columns);
    int width = 0;
    for (const char c : table) {
      if (c == '\n') {
        EXPECT_LE(width, columns);
        width = 0;
      } else if ((c & 0xc0) != 0x80) {
        ++width;
      }
    }
  }
}

class LengthQuantileTest : public CorpusTest {};

TEST_F(LengthQuantileTest, QuantilesAreLengthsThatOccur) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 100; i >= 1; --i) lengths.push_back(i + 1);
  const Corpus corpus = corpus_of_lengths("c", lengths);
  EXPECT_THAT(length_quantiles(corpus, std::array{0.0, 0.5, 0.9, 0.99, 1.0}),
              ElementsAre(Tokens(2), Tokens(51), Tokens(91), Tokens(100), Tokens(101)));
  EXPECT_EQ(document_lengths(corpus).num_tokens(), corpus.num_tokens());
  EXPECT_THAT(length_quantiles(corpus_of_lengths("d", {9}), std::array{0.5, 1.0}),
              ElementsAre(Tokens(9), Tokens(9)));
}

}  // namespace
}  // namespace weft
