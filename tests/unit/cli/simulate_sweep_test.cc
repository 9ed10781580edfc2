#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "cost/reference_cost.h"
#include "plan/planner.h"
#include "tests/unit/cli/simulate_fixture.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(SimulateCommandTest, ASweepGivesARowForEachPointAndCsvEveryStrategy) {
  const std::string csv =
      run(small({"--sweep", "capacity=4K,8K", "--sweep", "link-scale=1,0.01", "--csv"}));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'),
            1 + 4 * static_cast<std::ptrdiff_t>(strategy_names().size()));
  EXPECT_THAT(csv, HasSubstr("capacity,link-scale,strategy,step_s"));
  EXPECT_THAT(csv, HasSubstr("\n8K,0.01,"));
  const std::string table = run(small({"--sweep", "capacity=4K,8K"}));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_THAT(error(small({"--sweep", "capcity=4K"})), HasSubstr("did you mean 'capacity'?"));
  EXPECT_THAT(error(small({"--sweep", "capacity"})), HasSubstr("expected KEY=VALUE"));
}

TEST_F(SimulateCommandTest, ASweepKeyThatComesTwiceIsRefused) {
  EXPECT_THAT(error(small({"--sweep", "capacity=4K", "--sweep", "capacity=8K"})),
              HasSubstr("'capacity' is there twice"));
  EXPECT_THAT(error(small({"--pp", "4", "--sweep", "virtual_stages=1", "virtual-stages=2"})),
              HasSubstr("'virtual-stages' is there twice"));
  EXPECT_THAT(error(small({"--sweep", "devices=16", "ranks=8"})), HasSubstr("exclude each other"));
}

TEST_F(SimulateCommandTest, AnImpossibleCombinationOfASweepIsARowThatSaysWhy) {
  const auto sweep = [](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"--devices", "64", "--capacity", "8K", "--sweep", "pp=1,4", "virtual_stages=1,2"});
    return small(more);
  };
  const std::string table = run(sweep({}));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 1 + 4);
  EXPECT_THAT(table, HasSubstr("\n1            2              impossible: 2 virtual stages without "
                               "a pipeline"));
  EXPECT_THAT(table, HasSubstr("\n4            2              hdp"));
  EXPECT_THAT(run(small({"--sweep", "capacity=1K,8K"})),
              AllOf(HasSubstr("1K           impossible: sequence "), HasSubstr("\n8K  ")))
      << "of the planner";

  const std::string csv = run(sweep({"--csv", "--strategy", "pow2"}));
  std::vector<std::string> rows;
  for (std::size_t begin = 0; begin < csv.size(); begin = csv.find('\n', begin) + 1)
    rows.push_back(csv.substr(begin, csv.find('\n', begin) - begin));
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_THAT(rows[0], EndsWith(",fits,impossible"));
  EXPECT_THAT(rows[1], AllOf(StartsWith("1,1,pow2,"), EndsWith(",true,")));
  EXPECT_THAT(rows[2], AllOf(StartsWith("1,2,,,"), HasSubstr(",\"2 virtual stages without")));
  EXPECT_THAT(rows[4], StartsWith("4,2,pow2,"));
  const auto commas = [](const std::string& row) {
    return std::count(
        row.begin(), row.begin() + static_cast<std::ptrdiff_t>(std::min(row.find('"'), row.size())),
        ',');
  };
  for (const std::string& row : rows) EXPECT_EQ(commas(row), commas(rows[0])) << row;
  const std::string plain = run(small({"--capacity", "8K", "--csv"}));
  EXPECT_THAT(plain, Not(HasSubstr("impossible")));
}

TEST_F(SimulateCommandTest, ASweepOfNothingPossibleOrOfAWrongValueIsAnError) {
  EXPECT_THAT(error(small({"--capacity", "8K", "--sweep", "virtual_stages=2,4"})),
              AllOf(HasSubstr("none of the 2 combinations is possible; the first: "),
                    HasSubstr("2 virtual stages without a pipeline")));
  const auto wrong = [](const std::string& sweep) {
    return error(small({"--capacity", "8K", "--sweep", sweep}));
  };
  EXPECT_THAT(wrong("capacity=8K,much"), HasSubstr("--capacity"));
  EXPECT_THAT(wrong("model=llama-7b,lama-13b"), HasSubstr("did you mean 'llama-13b'?"));
  EXPECT_THAT(wrong("recompute=none,some"), HasSubstr("expected none or full"));
  EXPECT_THAT(wrong("dtype=bfloat16,fp8"), HasSubstr("--dtype is 'fp8'"));
  EXPECT_THAT(wrong("link-scale=1,0"), HasSubstr("--link-scale is '0'"));
  EXPECT_THAT(wrong("pp=1,0"), HasSubstr("--pp is 0"));
  EXPECT_THAT(wrong("context=32K,long"), HasSubstr("--context"));
  EXPECT_THAT(wrong("workload=github,gihub"), HasSubstr("did you mean 'github'?"));
  for (const std::string sweep : {"capacity=8K,much", "dtype=bfloat16,fp8", "workload=gihub"})
    EXPECT_THAT(wrong(sweep), Not(HasSubstr("combinations")));
}

TEST_F(SimulateCommandTest, AWrongValueThatIsNoKeyOfASweepIsOneErrorBeforeIt) {
  const auto wrong = [](std::vector<std::string> source) {
    std::vector<std::string> flags{"--model", "llama-7b",   "--cluster", "h800",    "--devices",
                                   "16",      "--capacity", "8K",        "--sweep", "pp=1,2"};
    flags.insert(flags.end(), source.begin(), source.end());
    return error(flags);
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"--workload", "github", "--context", "32K", "--global-batch-tokens", "256K", "--strategy",
        "hdq"},
       "did you mean 'hdp'?"},
      {{"--lengths", at("no-such-lengths")}, "no-such-lengths"},
      {{"--corpus", at("no-such-corpus"), "--global-batch-tokens", "256K"}, "no-such-corpus"}};
  for (const auto& [flags, part] : cases) {
    EXPECT_THAT(wrong(flags), HasSubstr(part));
    EXPECT_THAT(wrong(flags), Not(HasSubstr("combinations"))) << part;
  }
}

}  // namespace
}  // namespace weft
