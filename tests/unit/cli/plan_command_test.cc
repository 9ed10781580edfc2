#include "cli/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "corpus/byte_tokenizer.h"
#include "corpus/corpus_builder.h"
#include "cost/cost_model.h"
#include "plan/plan_codec.h"
#include "plan/validate.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void add_default(std::vector<std::string>& arguments, const std::string& flag,
                 const std::string& value) {
  if (std::find(arguments.begin(), arguments.end(), flag) != arguments.end()) return;
  arguments.insert(arguments.end(), {flag, value});
}

class PlanCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "weft-plan-command-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    write_file_atomically(folder_ / name, content);
    return (folder_ / name).string();
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  // Runs `weft plan ARGUMENTS...` in this process, on 4 ranks of 1K unless they say otherwise; what
  // it printed.
  std::string run(std::vector<std::string> arguments) const {
    CLI::App app("weft");
    add_plan_command(app);
    add_default(arguments, "--ranks", "4");
    add_default(arguments, "--capacity", "1K");
    arguments.insert(arguments.begin(), "plan");
    std::reverse(arguments.begin(), arguments.end());
    ::testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }
  std::string refusal(const std::vector<std::string>& arguments) const {
    try {
      run(arguments);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  // Plans with --out; the saved plan, checked.
  StepPlan saved(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--out", at("saved.plan")});
    run(arguments);
    StepPlan plan = load_plan(at("saved.plan"));
    validate(plan);
    return plan;
  }

  fs::path folder_;
};

std::vector<std::int64_t> lengths_of(const StepPlan& plan) {
  std::vector<std::int64_t> lengths;
  for (const SequenceSpec& sequence : plan.sequences) lengths.push_back(sequence.tokens.value());
  return lengths;
}

TEST_F(PlanCommandTest, ALengthsFileMayHaveCommentsBlankLinesAndForeignLineEnds) {
  const std::string path = write("lengths.txt", "# tokens\n\n 300 # short\r\n4096\n\t7\n1");
  const std::string printed = run({"--lengths", path});
  EXPECT_THAT(printed, AllOf(HasSubstr("4 sequences, 4404 tokens, longest 4096"),
                             HasSubstr("strategy       hdp"), HasSubstr("largest degree 4"),
                             HasSubstr("reference-7b"), HasSubstr("busy")));
  const StepPlan plan = saved({"--lengths", path});
  EXPECT_THAT(lengths_of(plan), ElementsAre(4096, 300, 7, 1));
  // Ids count the sequences, not the lines; the last token of a sequence has no target.
  EXPECT_EQ(plan.sequences[0].id, 1);
  EXPECT_EQ(plan.sequences[0].num_targets, 4095);
}

TEST_F(PlanCommandTest, TheSavedPlanIsThePlanThatWasPrinted) {
  const std::string path = write("lengths.txt", "2000\n300\n300\n1024\n");
  const std::string printed = run({"--lengths", path, "--strategy", "hdp-naive", "--weighting",
                                   "sample", "--step", "0", "--seed", "9", "--out", at("a.plan")});
  const StepPlan plan = load_plan(at("a.plan"));
  EXPECT_NO_THROW(validate(plan));
  EXPECT_EQ(plan.strategy, "hdp-naive");
  EXPECT_EQ(plan.weighting, LossWeighting::kSample);
  EXPECT_EQ(plan.seed, 9u);
  EXPECT_EQ(plan.num_ranks, 4);
  EXPECT_EQ(plan.capacity, Tokens(1024));
  EXPECT_THAT(printed, HasSubstr(plan_hash(plan).hex()));
}

TEST_F(PlanCommandTest, JsonIsOneObjectThatAgreesWithTheSavedPlan) {
  const std::string path = write("lengths.txt", "2000\n300\n");
  const auto json =
      nlohmann::json::parse(run({"--lengths", path, "--json", "--out", at("a.plan")}));
  const StepPlan plan = load_plan(at("a.plan"));
  EXPECT_EQ(json["hash"], plan_hash(plan).hex());
  EXPECT_EQ(json["makespan_ns"], plan.makespan.value());
  EXPECT_EQ(json["sequences"].size(), 2u);
  EXPECT_EQ(json["sequences"][0]["tokens"], 2000);
  EXPECT_EQ(json["ranks"].size(), 4u);
}

TEST_F(PlanCommandTest, ABadLineIsNamedWithItsNumber) {
  for (const char* bad :
       {"abc", "12x", "-3", "0", "1.5", "4294967296", "99999999999999999999", "3 4", "4K"}) {
    const std::string path = write("lengths.txt", fmt::format("# head\n10\n\n{}\n20\n", bad));
    EXPECT_THAT(refusal({"--lengths", path}),
                AllOf(HasSubstr("line 4"), HasSubstr(fmt::format("'{}'", bad)), HasSubstr(path)));
  }
  EXPECT_THAT(refusal({"--lengths", at("absent.txt")}), HasSubstr("absent.txt"));
}

TEST_F(PlanCommandTest, AFileWithoutLengthsGivesAnEmptyPlan) {
  EXPECT_THAT(lengths_of(saved({"--lengths", write("none.txt", "# nothing\n")})), ElementsAre());
}

TEST_F(PlanCommandTest, AStepTakesWholeSequencesInOrderUntilTheBatchIsFull) {
  const std::string path = write("lengths.txt", "600\n400\n300\n700\n1\n1000\n");
  const auto step = [&](const std::string& number) {
    return lengths_of(
        saved({"--lengths", path, "--global-batch-tokens", "1000", "--step", number}));
  };
  EXPECT_THAT(step("0"), ElementsAre(600, 400));
  EXPECT_THAT(step("1"), ElementsAre(700, 300));
  EXPECT_THAT(step("2"), ElementsAre(1));
  EXPECT_THAT(step("3"), ElementsAre(1000));
  EXPECT_EQ(load_plan(at("saved.plan")).step, 3);
  EXPECT_THAT(refusal({"--lengths", path, "--global-batch-tokens", "1000", "--step", "4"}),
              AllOf(HasSubstr("--step 4"), HasSubstr("4 steps")));
  EXPECT_THAT(refusal({"--lengths", path, "--step", "1"}), HasSubstr("only 1 steps"));
  EXPECT_THAT(refusal({"--lengths", path, "--global-batch-tokens", "999", "--step", "3"}),
              AllOf(HasSubstr("sequence 5"), HasSubstr("1000 tokens"), HasSubstr("999")));
  EXPECT_THROW(run({"--lengths", path, "--step", "-1"}), CLI::ParseError);
}

TEST_F(PlanCommandTest, MistakesNameTheFlagAndTheNearestName) {
  const std::string path = write("lengths.txt", "10\n");
  EXPECT_THAT(refusal({"--lengths", path, "--strategy", "hdp-naiv"}),
              AllOf(HasSubstr("'hdp-naiv'"), HasSubstr("did you mean 'hdp-naive'?")));
  EXPECT_THAT(refusal({"--lengths", path, "--capacity", "many"}),
              AllOf(HasSubstr("--capacity"), HasSubstr("many")));
  EXPECT_THAT(refusal({"--lengths", path, "--max-context", "0"}), HasSubstr("--max-context"));
  EXPECT_THAT(refusal({"--lengths", path, "--weighting", "tokens"}), HasSubstr("--weighting"));
  EXPECT_THAT(refusal({"--lengths", path, "--ranks", "0"}), HasSubstr("ranks"));
  EXPECT_THAT(refusal({"--lengths", write("long.txt", "9\n4097\n")}),
              AllOf(HasSubstr("4097"), HasSubstr("at least 5 ranks")));
  EXPECT_THROW(run({}), CLI::ParseError);  // neither --lengths nor --corpus
  EXPECT_THROW(run({"--lengths", path, "--corpus", at("c")}), CLI::ParseError);
}

TEST_F(PlanCommandTest, AWorkloadIsSummedUpInOneJsonObject) {
  const std::vector<std::string> arguments{
      "--workload", "github", "--context", "4K", "--global-batch-tokens", "64K",
      "--seed",     "3",      "--batches", "3",  "--summary-json"};
  const auto json = nlohmann::ordered_json::parse(run(arguments));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("strategy", "makespan_s", "lower_bound_s", "gap_mean", "gap_worst",
                                "planning_ms_p50", "planning_ms_p99", "exchange_bytes",
                                "idle_share", "max_degree", "sharded_sequences"));
  EXPECT_EQ(json["strategy"], "hdp");
  EXPECT_GE(json["makespan_s"].get<double>(), json["lower_bound_s"].get<double>());
  EXPECT_GE(json["gap_worst"].get<double>(), json["gap_mean"].get<double>());
  const auto again = nlohmann::ordered_json::parse(run(arguments));
  EXPECT_EQ(again["makespan_s"], json["makespan_s"]);
  EXPECT_THAT(refusal({"--workload", "github"}), HasSubstr("--global-batch-tokens"));
  EXPECT_THAT(refusal({"--workload", "githab", "--global-batch-tokens", "64K"}),
              HasSubstr("did you mean 'github'?"));
}

TEST_F(PlanCommandTest, RanksMayBeSlowSmallOrDead) {
  const std::string lengths = write("lengths.txt", "900\n800\n700\n600\n500\n400\n300\n");
  const StepPlan plan = saved({"--lengths", lengths, "--dead", "2", "--rank-speed", "1=0.5"});
  EXPECT_TRUE(plan.ranks[2].empty());
  EXPECT_EQ(plan.rank_capacity.size(), 4u);
  const StepPlan drawn = saved({"--lengths", lengths, "--speeds", "0.6:1", "--memories", "0.9:1"});
  EXPECT_EQ(drawn.rank_capacity.size(), 4u);
  EXPECT_THAT(refusal({"--lengths", lengths, "--dead", "4"}), HasSubstr("rank 4"));
  EXPECT_THAT(refusal({"--lengths", lengths, "--speeds", "fast"}), HasSubstr("LOW:HIGH"));
  EXPECT_THAT(refusal({"--lengths", lengths, "--rank-speed", "1:2"}), HasSubstr("RANK=SPEED"));
}

TEST_F(PlanCommandTest, AllComparesEveryStrategyAndSavesNone) {
  const std::string path = write("lengths.txt", "2000\n300\n300\n");
  EXPECT_THAT(run({"--lengths", path, "--strategy", "all"}),
              AllOf(HasSubstr("static"), HasSubstr("hdp-naive"), HasSubstr("\nhdp  ")));
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--json"}, {"--out", at("a.plan")}}) {
    std::vector<std::string> arguments{"--lengths", path, "--strategy", "all"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_THAT(refusal(arguments), HasSubstr("--strategy all"));
  }
  EXPECT_FALSE(fs::exists(at("a.plan")));
}

TEST_F(PlanCommandTest, ACostFileReplacesTheReference) {
  const std::string path = write("lengths.txt", "100\n");
  save_cost_model(
      at("cost.json"),
      {.name = "by-hand", .source = "test", .linear_ns_per_token = 10, .backward_ratio = 0});
  const StepPlan plan = saved({"--lengths", path, "--cost", at("cost.json"), "--ranks", "1"});
  EXPECT_EQ(plan.makespan, Nanoseconds(1000));
  EXPECT_THAT(run({"--lengths", path, "--cost", at("cost.json")}), HasSubstr("(cost: by-hand)"));
}

TEST_F(PlanCommandTest, ACorpusIsPlannedInItsDataOrder) {
  fs::create_directories(folder_ / "text");
  for (int i = 0; i < 40; ++i) {
    write(fmt::format("text/{}.txt", i), std::string(static_cast<std::size_t>(50 + i), 'x'));
  }
  CorpusBuildOptions options;
  options.out = at("c");
  options.inputs = {at("text")};
  build_corpus(ByteTokenizer(), options);
  const std::vector<std::string> first{"--corpus", at("c"), "--global-batch-tokens", "1000"};
  std::vector<std::string> second = first;
  second.insert(second.end(), {"--step", "1"});
  std::vector<std::string> reordered = first;
  reordered.insert(reordered.end(), {"--seed", "1"});
  const StepPlan plan = saved(first);
  EXPECT_GT(plan.sequences.size(), 5u);
  EXPECT_EQ(saved(first), plan);
  EXPECT_NE(saved(second).sequences, plan.sequences);
  EXPECT_NE(saved(reordered).sequences, plan.sequences);
  EXPECT_THAT(refusal({"--corpus", at("c")}), HasSubstr("--global-batch-tokens"));
  EXPECT_THAT(refusal({"--corpus", at("c"), "--global-batch-tokens", "1K", "--max-context", "60"}),
              HasSubstr("60"));
}

}  // namespace
}  // namespace weft
