#include "report/run_view.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tests/unit/report/metrics_line.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunViewTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft-run-view-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, content);
  }
  void write_steps(int count) const {
    std::string text;
    for (int step = 0; step < count; ++step) text += metrics_line(step, step * 0.5) + "\n";
    write("metrics.jsonl", text);
  }

  fs::path folder_;
};

std::map<std::string, double> summary_of(const MetricsTable& metrics) {
  const auto summary = summarize(metrics);
  return {summary.begin(), summary.end()};
}

TEST_F(RunViewTest, ReadsConfigurationAndPlansInTheirOrder) {
  write_steps(3);
  write("config.toml", "[plan]\nstrategy = \"hdp\"\ncapacity = 4096\n[train]\nranks = 7\n");
  write("plans/step-000010.plan", "x");
  write("plans/step-000002.plan", "x");
  write("plans/notes.txt", "x");
  const RunView run = read_run(folder_);
  EXPECT_EQ(run.name, folder_.filename());
  EXPECT_EQ(run.strategy, "hdp");
  EXPECT_EQ(run.ranks, 7);
  EXPECT_EQ(run.capacity, 4096);
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_THAT(run.plan_files,
              ElementsAre(folder_ / "plans/step-000002.plan", folder_ / "plans/step-000010.plan"));
}

TEST_F(RunViewTest, SaysWhatAFolderLacks) {
  try {
    read_run(folder_);
    FAIL() << "a folder without metrics was read";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(folder_.string()), HasSubstr("no metrics.jsonl")));
  }
  write("metrics.jsonl", metrics_line(0, 1) + "\n" + metrics_line(1, 1));
  const RunView run = read_run(folder_);
  EXPECT_THAT(run.notes, Contains(HasSubstr("no config.toml")));
  EXPECT_THAT(run.notes, Contains(HasSubstr("last line of metrics.jsonl has no end")));
}

TEST_F(RunViewTest, AConfigurationThatIsNoTomlIsRefusedByName) {
  write_steps(1);
  write("config.toml", "[plan\n");
  try {
    read_run(folder_);
    FAIL() << "a damaged configuration was read";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("config.toml"), HasSubstr("not TOML")));
  }
}

TEST_F(RunViewTest, SummaryHasMediansMeansAndExtremes) {
  write_steps(4);  // value of key k at step s: s / 2 + k
  const auto summary = summary_of(read_run(folder_).metrics);
  EXPECT_EQ(summary.at("steps"), 4);
  EXPECT_EQ(summary.at("loss_first"), 0);
  EXPECT_EQ(summary.at("loss_last"), 1.5);
  EXPECT_EQ(summary.at("tokens_per_s_median"), 5.75);  // of 5, 5.5, 6, 6.5
  EXPECT_EQ(summary.at("tokens_total"), 3 * 4 + 3);
  EXPECT_EQ(summary.at("exchange_bytes_mean"), 19.75);
  EXPECT_EQ(summary.at("peak_bytes_max"), 21.5);
  EXPECT_EQ(summary.at("forward_s_mean"), 10.75);
  write_steps(3);
  EXPECT_EQ(summary_of(read_run(folder_).metrics).at("mfu_median"), 6.5);
}

TEST_F(RunViewTest, StepsWithoutALossAreLeftOutOfItsSummary) {
  write("metrics.jsonl", metrics_line(0, 2) + "\n" +
                             replaced(metrics_line(1, 3), "\"loss\":3", "\"loss\":null") + "\n");
  EXPECT_EQ(summary_of(read_run(folder_).metrics).at("loss_last"), 2);
}

TEST_F(RunViewTest, ARunWithoutAStepHasNoFigures) {
  write("metrics.jsonl", "");
  const RunView run = read_run(folder_);
  EXPECT_TRUE(std::isnan(summary_of(run.metrics).at("loss_last")));
  const auto json = nlohmann::json::parse(run_json(run));
  EXPECT_TRUE(json["summary"]["loss_last"].is_null());
  EXPECT_TRUE(json["columns"]["loss"].empty());
}

TEST_F(RunViewTest, JsonHoldsTheNumbersExactly) {
  write("metrics.jsonl", metrics_line(7, 0.1) + "\n" + metrics_line(9, 1.0 / 3) + "\n");
  const RunView run = read_run(folder_);
  const auto json = nlohmann::json::parse(run_json(run));
  EXPECT_EQ(json["columns"]["step"], nlohmann::json({7, 9}));
  for (std::size_t k = 0; k < kMetricKeys.size(); ++k) {
    const auto column = json["columns"][std::string(kMetricKeys[k])].get<std::vector<double>>();
    EXPECT_EQ(column, run.metrics.columns[k]) << kMetricKeys[k];
  }
}

TEST_F(RunViewTest, LongRunsKeepFirstAndLastStepAndSayHowManyAreShown) {
  for (const int count : {4000, 4001, 8001}) {
    write_steps(count);
    const RunView run = read_run(folder_);
    const auto steps =
        nlohmann::json::parse(run_json(run))["columns"]["step"].get<std::vector<int>>();
    EXPECT_LE(steps.size(), kMostCurvePoints + 1) << count;
    EXPECT_EQ(steps.front(), 0);
    EXPECT_EQ(steps.back(), count - 1);
    const auto says = HasSubstr(fmt::format("{} of {} steps", steps.size(), count));
    if (count == 4000) {
      EXPECT_EQ(steps.size(), 4000U);
    } else {
      EXPECT_THAT(run.notes, Contains(says)) << count;
    }
    EXPECT_EQ(summary_of(run.metrics).at("steps"), count);
  }
}

TEST(Spread, TakesFirstAndLastAndWhatLiesBetween) {
  std::vector<fs::path> files;
  for (int i = 0; i < 7; ++i) files.push_back(std::to_string(i));
  EXPECT_THAT(spread(files, 0), IsEmpty());
  EXPECT_THAT(spread(files, 1), ElementsAre("0"));
  EXPECT_THAT(spread(files, 2), ElementsAre("0", "6"));
  EXPECT_THAT(spread(files, 3), ElementsAre("0", "3", "6"));
  EXPECT_EQ(spread(files, 6).size(), 6U);
  EXPECT_EQ(spread(files, 7), files);
  EXPECT_EQ(spread(files, 8), files);
  EXPECT_THAT(spread({}, 3), IsEmpty());
}

}  // namespace
}  // namespace weft
