#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cost/reference_cost.h"
#include "plan/planner.h"
#include "sim/timeline.h"
#include "tests/unit/cli/simulate_fixture.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
TEST_F(SimulateCommandTest, AllStrategiesStandSideBySideTheBestFirst) {
  const auto json = nlohmann::json::parse(run(small({"--capacity", "8K", "--json"})));
  ASSERT_EQ(json["strategies"].size(), strategy_names().size());
  double previous = 0;
  for (const auto& strategy : json["strategies"]) {
    EXPECT_GE(strategy["step_s"].get<double>(), previous);
    previous = strategy["step_s"];
    double sum = 0;
    for (const auto& [key, share] : strategy["split"].items()) sum += share.get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_TRUE(strategy["fits"].get<bool>());
  }
  EXPECT_EQ(json["best"], json["strategies"][0]["strategy"]);
  EXPECT_EQ(json["ranks"], 8);
  const std::string table = run(small({"--capacity", "8K"}));
  EXPECT_THAT(table, HasSubstr("hdp-naive"));
  EXPECT_THAT(table, HasSubstr("exchange of K and V"));
}

TEST_F(SimulateCommandTest, WithoutACapacityTheLargestThatFitsIsTaken) {
  const auto json = nlohmann::json::parse(run(small({"--strategy", "hdp", "--json"})));
  EXPECT_EQ(json["capacity"].get<std::int64_t>() % 1024, 0);
  EXPECT_LE(json["capacity"], json["largest_capacity"]);
  EXPECT_TRUE(json["strategies"][0]["fits"].get<bool>());
}

TEST_F(SimulateCommandTest, WhatDoesNotFitSaysSoAndWhatToChange) {
  const std::string text = run(small({"--capacity", "64K", "--strategy", "static"}));
  EXPECT_THAT(text, HasSubstr("does not fit"));
  EXPECT_THAT(text, HasSubstr("lower --capacity to"));
  EXPECT_THAT(text, HasSubstr("--recompute full would fit"));
  EXPECT_THAT(error({"--model", "llama-70b", "--cluster", "h800", "--devices", "16", "--workload",
                     "github", "--global-batch-tokens", "256K"}),
              AllOf(HasSubstr("raise --tp or --pp, or state"), Not(HasSubstr("--recompute"))))
      << "the weights alone do not fit";
}

TEST_F(SimulateCommandTest, VirtualStagesShortenTheBubbleAndStandInEveryOutput) {
  const auto with = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--devices", "32", "--pp", "4", "--capacity", "8K"});
    return small(more);
  };
  const auto json_of = [&](const std::string& chunks) {
    return nlohmann::json::parse(
        run(with({"--strategy", "static", "--json", "--virtual-stages", chunks})));
  };
  const auto one = json_of("1");
  const auto two = json_of("2");
  EXPECT_EQ(two["virtual_stages"], 2);
  EXPECT_FALSE(one.contains("virtual_stages"));
  const auto& plain = one["strategies"][0];
  const auto& chunked = two["strategies"][0];
  EXPECT_LT(chunked["step_s"], plain["step_s"]);
  EXPECT_LT(chunked["split"]["pipeline_bubble"].get<double>(),
            0.7 * plain["split"]["pipeline_bubble"].get<double>());
  EXPECT_GT(chunked["peak_bytes"], plain["peak_bytes"]);
  EXPECT_LT(two["largest_capacity"], one["largest_capacity"]);
  EXPECT_THAT(run(with({"--virtual-stages", "2"})), HasSubstr("4 pipeline, 2 virtual stages"));

  const std::string rows = run(with({"--sweep", "virtual_stages=4", "--strategy", "pow2"}));
  EXPECT_EQ(rows.find("strategy"), rows.find("pow2") - rows.find('\n') - 1) << "columns line up";
  const std::string csv = run(with({"--sweep", "virtual_stages=1,2,4", "--csv"}));
  EXPECT_THAT(csv, HasSubstr("virtual_stages,strategy,step_s"));
  EXPECT_THAT(csv, HasSubstr("\n4,"));
  EXPECT_EQ(run(with({"--sweep", "virtual-stages=2", "--csv"})).substr(15),
            run(with({"--sweep", "virtual_stages=2", "--csv"})).substr(15));

  run(with({"--strategy", "hdp", "--virtual-stages", "4", "--timeline", at("t.json"), "--trace",
            at("c.json")}));
  const Timeline timeline = load_timeline(at("t.json"));
  EXPECT_EQ(timeline.virtual_stages, 4);
  EXPECT_TRUE(std::any_of(timeline.events.begin(), timeline.events.end(),
                          [](const TimelineEvent& event) { return event.chunk == 3; }));
  EXPECT_THAT(read_text_file(at("c.json")), HasSubstr("\"chunk\":3"));
}

TEST_F(SimulateCommandTest, VirtualStagesThatCannotBeAreNamed) {
  EXPECT_THAT(error(small({"--virtual-stages", "2"})), HasSubstr("without a pipeline; raise --pp"));
  EXPECT_THAT(error(small({"--pp", "2", "--virtual-stages", "0"})),
              HasSubstr("--virtual-stages is 0, expected 1"));
  EXPECT_THAT(error(small({"--pp", "2", "--virtual-stages", "3"})),
              HasSubstr("expected one of 1, 2, 4, 8, 16"));
  EXPECT_THAT(error({"--paper", "--virtual-stages", "2"}), HasSubstr("the paper's own runs"));
  EXPECT_THAT(error({"--paper", "--pp", "2"}), HasSubstr("the paper's own runs"));
}

TEST_F(SimulateCommandTest, ThePapersRunsRefuseEveryFlagThatTheyDoNotUse) {
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--model", "llama-7b"},
                                                        {"--cluster", "h800"},
                                                        {"--devices", "8"},
                                                        {"--ranks", "8"},
                                                        {"--ranks-per-node", "4"},
                                                        {"--tp", "2"},
                                                        {"--pp", "2"},
                                                        {"--virtual-stages", "2"},
                                                        {"--workload", "github"},
                                                        {"--lengths", "lengths.txt"},
                                                        {"--corpus", "corpus"},
                                                        {"--context", "32K"},
                                                        {"--max-context", "32K"},
                                                        {"--global-batch-tokens", "1M"},
                                                        {"--over-long", "split"},
                                                        {"--step", "1"},
                                                        {"--seed", "1"},
                                                        {"--capacity", "8K"},
                                                        {"--recompute", "full"},
                                                        {"--dtype", "float32"},
                                                        {"--link-scale", "2"},
                                                        {"--cost", "cost.json"},
                                                        {"--strategy", "hdp"},
                                                        {"--sweep", "pp=1,2"},
                                                        {"--timeline", "t.json"},
                                                        {"--trace", "c.json"}}) {
    EXPECT_THAT(error({"--paper", "--batches", "1", flag, value}),
                HasSubstr("does not use " + flag + ";"));
  }
  for (const std::string flag : {"--offload", "--csv"})
    EXPECT_THAT(error({"--paper", "--json", flag}), HasSubstr("does not use " + flag + ";"));
}

TEST_F(SimulateCommandTest, SlowerLinksLengthenAStepWhoseExchangeIsExposed) {
  const auto step = [](const std::string& scale) {
    const auto json = nlohmann::json::parse(
        run(small({"--capacity", "4K", "--strategy", "static", "--link-scale", scale, "--json"})));
    return json["strategies"][0]["step_s"].get<double>();
  };
  EXPECT_GT(step("0.01"), 2 * step("1"));
}

TEST_F(SimulateCommandTest, TimelineAndTraceAreSaved) {
  run(small({"--capacity", "8K", "--strategy", "hdp", "--timeline", at("t.json"), "--trace",
             at("c.json")}));
  const Timeline timeline = load_timeline(at("t.json"));
  EXPECT_EQ(timeline.num_ranks, 8);
  EXPECT_EQ(timeline.tokens, 256 << 10);
  EXPECT_FALSE(timeline.events.empty());
  EXPECT_FALSE(nlohmann::json::parse(read_text_file(at("c.json")))["traceEvents"].empty());
}

TEST_F(SimulateCommandTest, StepsAreMeansOverBatches) {
  const auto one = nlohmann::json::parse(
      run(small({"--capacity", "8K", "--strategy", "hdp", "--json", "--batches", "1"})));
  const auto two = nlohmann::json::parse(run(
      small({"--capacity", "8K", "--strategy", "hdp", "--json", "--batches", "1", "--step", "1"})));
  const auto both = nlohmann::json::parse(
      run(small({"--capacity", "8K", "--strategy", "hdp", "--json", "--batches", "2"})));
  const auto step = [](const nlohmann::json& json) {
    return json["strategies"][0]["step_s"].get<double>();
  };
  EXPECT_NEAR(step(both), (step(one) + step(two)) / 2, 1e-9);
}

TEST_F(SimulateCommandTest, AMeasuredCostAloneGivesStepsWithTheirEnd) {
  CostModel cost = reference_cost_7b();
  cost.gradient_bytes = 1e9;
  cost.reduce_ns_per_byte = 0.01;
  cost.optimizer_ns_per_byte = 0.02;
  save_cost_model(at("cost.json"), cost);
  const std::vector<std::string> flags{"--cost",
                                       at("cost.json"),
                                       "--ranks",
                                       "8",
                                       "--capacity",
                                       "8K",
                                       "--workload",
                                       "github",
                                       "--context",
                                       "32K",
                                       "--global-batch-tokens",
                                       "256K",
                                       "--batches",
                                       "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return more;
  };
  const auto json = nlohmann::json::parse(run(with({"--json", "--strategy", "hdp"})));
  ASSERT_EQ(json["steps"].size(), 2U);
  for (const auto& step : json["steps"]) {
    EXPECT_NEAR(step["step_s"].get<double>() - step["micro_batches_s"].get<double>(),
                0.01 * 2 * 7 / 8 + 0.02, 1e-6);
    EXPECT_NEAR(step["reduction_bytes"].get<double>(), 8 * 2e9 * 7 / 8, 1);
    EXPECT_EQ(step["spread_s"].get<double>(), 0);
  }
  cost.spread_ns = 1e6;
  save_cost_model(at("cost.json"), cost);
  const auto spread = nlohmann::json::parse(run(with({"--json", "--strategy", "hdp"})));
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& step = spread["steps"][i];
    EXPECT_GT(step["spread_s"].get<double>(), 0);
    EXPECT_NEAR((step["reduction"].get<double>() + step["optimizer"].get<double>()) *
                    step["step_s"].get<double>(),
                0.01 * 2 * 7 / 8 + 0.02, 1e-6);
    double shares = 0;
    for (const ShareName& share : kShareNames) shares += step[share.key].get<double>();
    EXPECT_NEAR(shares, 1, 1e-9);
    EXPECT_NEAR(step["step_s"].get<double>(),
                json["steps"][i]["step_s"].get<double>() + step["spread_s"].get<double>(), 1e-9);
  }
  const std::string table = run(with({}));
  for (const std::string& strategy : strategy_names()) EXPECT_THAT(table, HasSubstr(strategy));
  EXPECT_LT(table.find("\nhdp "), table.find("\nstatic "));
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"--tp", "2"},
                                                        {"--virtual-stages", "2"},
                                                        {"--recompute", "full"},
                                                        {"--dtype", "float32"},
                                                        {"--link-scale", "0.5"},
                                                        {"--devices", "8"},
                                                        {"--pp", "1"},
                                                        {"--timeline", at("t.json")},
                                                        {"--trace", at("c.json")},
                                                        {"--sweep", "pp=1,2"}}) {
    try {
      run(with({flag, value}));
      ADD_FAILURE() << flag;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(flag + " needs --model and --cluster"));
    }
  }
}

TEST_F(SimulateCommandTest, WrongInputIsNamed) {
  EXPECT_THAT(error({}), HasSubstr("--model is missing"));
  EXPECT_THAT(error({"--model", "llama-7b"}), HasSubstr("--cluster is missing"));
  EXPECT_THAT(error({"--model", "llama-7b", "--cluster", "h800", "--devices", "8"}),
              HasSubstr("--workload, --lengths and --corpus"));
  EXPECT_THAT(error(small({"--ranks", "8"})), HasSubstr("one of --devices and --ranks"));
  EXPECT_THAT(error(small({"--tp", "3"})), HasSubstr("must divide the 8 devices of a node"));
  EXPECT_THAT(error(small({"--model", "lama-7b"})), HasSubstr("did you mean 'llama-7b'?"));
  EXPECT_THAT(error(small({"--strategy", "hdq"})), HasSubstr("did you mean 'hdp'?"));
  EXPECT_THAT(error(small({"--timeline", at("t.json")})), HasSubstr("need one --strategy"));
  EXPECT_THAT(error(small({"--link-scale", "0"})), HasSubstr("--link-scale is '0'"));
  EXPECT_THAT(error(small({"--recompute", "some"})), HasSubstr("expected none or full"));
  EXPECT_THAT(error(small({"--dtype", "fp8"})),
              HasSubstr("--dtype is 'fp8', expected bfloat16 or float32"));
  EXPECT_THAT(error({"--paper", "--model", "llama-7b"}), HasSubstr("the paper's own runs"));
  EXPECT_THAT(error(small({"--over-long", "split"})), HasSubstr("documents of a --corpus"));
}

// GPU-hours of no tokens were printed as -nan.
TEST_F(SimulateCommandTest, AStepWithoutSequencesIsRefused) {
  std::ofstream(at("none.txt")) << "# no lengths\n";
  EXPECT_THAT(error({"--model", "llama-7b", "--cluster", "a800", "--devices", "16", "--tp", "2",
                     "--capacity", "8K", "--lengths", at("none.txt")}),
              HasSubstr("step 0 has no sequences"));
  save_cost_model(at("cost.json"), reference_cost_7b());
  EXPECT_THAT(error({"--cost", at("cost.json"), "--ranks", "4", "--capacity", "8K", "--lengths",
                     at("none.txt")}),
              HasSubstr("step 0 has no sequences"));
}

}  // namespace
}  // namespace weft
