#include "report/metrics_reader.h"

#include <cmath>

#include "base/error.h"
#include "tests/unit/report/metrics_line.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_metrics(text, "OUT/metrics.jsonl");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(MetricsReader, ReadsEveryNumberOfEveryLine) {
  const MetricsTable table =
      parse_metrics(metrics_line(3, 0.1) + "\n" + metrics_line(4, 0.25) + "\n", "m");
  EXPECT_THAT(table.steps, ElementsAre(3, 4));
  EXPECT_FALSE(table.is_cut);
  for (std::size_t k = 0; k < kMetricKeys.size(); ++k) {
    const auto offset = static_cast<double>(k);
    EXPECT_THAT(table.columns[k], ElementsAre(0.1 + offset, 0.25 + offset)) << kMetricKeys[k];
    EXPECT_EQ(&table.column(kMetricKeys[k]), &table.columns[k]);
  }
  EXPECT_THAT(table.plan_hashes, ElementsAre("hash3", "hash4"));
}

TEST(MetricsReader, AnEmptyFileHasNoSteps) {
  const MetricsTable table = parse_metrics("", "m");
  EXPECT_TRUE(table.steps.empty());
  EXPECT_FALSE(table.is_cut);
}

TEST(MetricsReader, NullIsNoNumber) {
  const std::string line = metrics_line(0, 1);
  const std::string with_null = replaced(line, "\"loss\":1", "\"loss\":null");
  EXPECT_TRUE(std::isnan(parse_metrics(with_null + "\n", "m").column("loss")[0]));
}

TEST(MetricsReader, ALastLineWithoutItsEndIsLeftOutWhereverItIsCut) {
  const std::string whole = metrics_line(0, 1) + "\n";
  const std::string second = metrics_line(1, 2);
  for (std::size_t cut = 1; cut <= second.size(); ++cut) {
    const MetricsTable table = parse_metrics(whole + second.substr(0, cut), "m");
    EXPECT_TRUE(table.is_cut) << cut;
    EXPECT_THAT(table.steps, ElementsAre(0)) << cut;
  }
}

TEST(MetricsReader, OtherDamageNamesFileAndLine) {
  const std::string good = metrics_line(0, 1) + "\n";
  const std::string next = metrics_line(1, 1);
  const auto place = HasSubstr("OUT/metrics.jsonl:2");
  EXPECT_THAT(refusal(good + next.substr(0, 40) + "\n"), AllOf(place, HasSubstr("not JSON")));
  EXPECT_THAT(refusal(good + "\n" + next + "\n"), AllOf(place, HasSubstr("not JSON")));
  EXPECT_THAT(refusal(good + "[1]\n"), AllOf(place, HasSubstr("no JSON object")));
  EXPECT_THAT(refusal(good + "{}\n"), AllOf(place, HasSubstr("no \"schema\"")));
  EXPECT_THAT(refusal(good + replaced(next, "metrics.v1", "metrics.v2") + "\n"),
              AllOf(place, HasSubstr("weft.metrics.v2"), HasSubstr("newer")));
  EXPECT_THAT(refusal(good + replaced(next, "weft.metrics.v1", "other") + "\n"),
              AllOf(place, HasSubstr("expected \"weft.metrics.v1\"")));
  EXPECT_THAT(refusal(good + replaced(next, "\"mfu\"", "\"mfv\"") + "\n"),
              AllOf(place, HasSubstr("no \"mfu\"")));
  EXPECT_THAT(refusal(good + replaced(next, "\"loss\":1", "\"loss\":\"1\"") + "\n"),
              AllOf(place, HasSubstr("\"loss\" is \"1\"")));
  EXPECT_THAT(refusal(good + replaced(next, "\"hash1\"", "7") + "\n"),
              AllOf(place, HasSubstr("\"plan_hash\" is 7")));
  for (const char* step : {"-1", "1.5", "\"1\"", "1e300", "18446744073709551615"}) {
    EXPECT_THAT(
        refusal(good + replaced(next, "\"step\":1", fmt::format("\"step\":{}", step)) + "\n"),
        AllOf(place, HasSubstr("whole number")))
        << step;
  }
}

TEST(MetricsReader, StepsMustAscend) {
  const std::string text = metrics_line(5, 1) + "\n" + metrics_line(5, 1) + "\n";
  EXPECT_THAT(refusal(text), AllOf(HasSubstr(":2"), HasSubstr("step 5 follows step 5")));
}

}  // namespace
}  // namespace weft
