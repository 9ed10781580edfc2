#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "bench/harness/measure.h"
#include "bench/harness/row.h"
#include "bench/harness/suite.h"

namespace weft::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

TEST(Median, IsTheMiddleOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 2}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({1, 100, 3, 2}), 2.5);
  EXPECT_THROW(median({}), InternalError);
}

Row example(Better better) {
  Row row;
  row.name = "group/case";
  row.unit = "GFLOP/s";
  row.better = better;
  row.samples = {10, 30, 20};
  row.limit_name = "peak";
  row.limits = {40, 50, 30};
  row.counters = {{"bytes_ratio", 1.0}};
  return row;
}

TEST(Share, IsOneAtTheLimitInEitherDirection) {
  EXPECT_DOUBLE_EQ(share(example(Better::kHigher)), 20.0 / 40.0);
  EXPECT_DOUBLE_EQ(share(example(Better::kLower)), 40.0 / 20.0);
}

TEST(JsonLine, HoldsTheWholeContract) {
  const std::string line = to_json_line(example(Better::kHigher));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["name"], "group/case");
  EXPECT_EQ(json["value"], 20);
  EXPECT_EQ(json["unit"], "GFLOP/s");
  EXPECT_EQ(json["better"], "higher");
  EXPECT_EQ(json["samples"], 3);
  EXPECT_EQ(json["min"], 10);
  EXPECT_EQ(json["p50"], 20);
  EXPECT_EQ(json["max"], 30);
  EXPECT_EQ(json["limit"], 40);
  EXPECT_EQ(json["limit_name"], "peak");
  EXPECT_EQ(json["share"], 0.5);
  EXPECT_EQ(json["bytes_ratio"], 1.0);
}

TEST(JsonLine, WithoutALimitItAndTheShareAreNull) {
  Row row = example(Better::kLower);
  row.limits.clear();
  const auto json = nlohmann::json::parse(to_json_line(row));
  EXPECT_TRUE(json.at("limit").is_null());
  EXPECT_TRUE(json.at("limit_name").is_null());
  EXPECT_TRUE(json.at("share").is_null());
}

TEST(Measure, SamplesAndLimitsAlternateAndTheWarmUpDoesNotCount) {
  std::string order;
  int count = 0;
  const Row row = measure({.name = "x",
                           .unit = "u",
                           .sample =
                               [&] {
                                 order += 's';
                                 return ++count;
                               },
                           .limit_name = "l",
                           .limit =
                               [&] {
                                 order += 'l';
                                 return 100.0;
                               },
                           .warm_up = 2,
                           .least_samples = 3,
                           .most_samples = 3});
  EXPECT_EQ(order, "lslslslsls");
  EXPECT_THAT(row.samples, ElementsAre(3, 4, 5));
  EXPECT_THAT(row.limits, ElementsAre(100, 100, 100));
  EXPECT_EQ(row.limit_name, "l");
}

TEST(Measure, EndsAtTheLeastSamplesWhenTimeIsUpAndElseAtTheMost) {
  const auto count = [](double enough_s) {
    return measure({.name = "x",
                    .unit = "u",
                    .sample = [] { return 1.0; },
                    .warm_up = 0,
                    .least_samples = 2,
                    .most_samples = 9,
                    .enough_s = enough_s})
        .samples.size();
  };
  EXPECT_EQ(count(0), 2u);
  EXPECT_EQ(count(1e9), 9u);
}

Selection select(std::vector<std::string> words) {
  words.insert(words.begin(), "bench");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_selection(static_cast<int>(argv.size()), argv.data());
}

TEST(Selection, PrefixesChooseAndNoneChoosesAll) {
  EXPECT_TRUE(select({}).wants("anything"));
  const Selection two = select({"attention_forward/d64", "plan/"});
  EXPECT_TRUE(two.wants("attention_forward/d64/4096"));
  EXPECT_TRUE(two.wants("plan/hdp"));
  EXPECT_FALSE(two.wants("attention_forward/d128/4096"));
  EXPECT_FALSE(two.wants("plan"));
  EXPECT_TRUE(select({"--list"}).list);
  EXPECT_THROW(select({"--lists"}), UserError);
}

Suite suite_of_three(std::vector<std::string>* ran) {
  Suite suite;
  for (const char* name : {"a/1", "a/2", "b/1"}) {
    suite.add(name, [=] {
      ran->push_back(name);
      if (std::string_view(name) == "a/1") throw_user_error("no luck");
      return example(Better::kHigher);
    });
  }
  return suite;
}

TEST(Suite, RunsWhatIsSelectedAndNamesTheRows) {
  std::vector<std::string> ran;
  CaptureStdout();
  EXPECT_EQ(suite_of_three(&ran).run(select({"a/2", "b"})), 0);
  const std::string shown = GetCapturedStdout();
  EXPECT_THAT(ran, ElementsAre("a/2", "b/1"));
  EXPECT_EQ(nlohmann::json::parse(shown.substr(0, shown.find('\n')))["name"], "a/2");
}

TEST(Suite, ARowThatFailsIsSaidAndTheOthersStillRun) {
  std::vector<std::string> ran;
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(suite_of_three(&ran).run(select({})), 1);
  GetCapturedStdout();
  EXPECT_THAT(GetCapturedStderr(), ::testing::HasSubstr("a/1: no luck"));
  EXPECT_EQ(ran.size(), 3u);
}

TEST(Suite, ListNamesTheRowsAndRunsNone) {
  std::vector<std::string> ran;
  CaptureStdout();
  EXPECT_EQ(suite_of_three(&ran).run(select({"--list", "a"})), 0);
  EXPECT_EQ(GetCapturedStdout(), "a/1\na/2\n");
  EXPECT_TRUE(ran.empty());
}

}  // namespace
}  // namespace weft::bench
