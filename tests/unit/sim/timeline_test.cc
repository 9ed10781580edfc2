#include "sim/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/edited_file.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

Timeline small_timeline() {
  Timeline timeline;
  timeline.strategy = "hdp \"quoted\"";
  timeline.cost = "llama-7b on h800";
  timeline.step = 3;
  timeline.num_ranks = 2;
  timeline.pipeline_stages = 2;
  timeline.tokens = 4096;
  timeline.micro_batches_time = 90_ns;
  timeline.step_time = 100_ns;
  timeline.split = {.compute = 0.5, .exposed_exchange = 1.0 / 3, .pipeline_bubble = 1.0 / 6};
  timeline.bytes = {.node_exchange = 12, .nic_reduction = 1e15};
  timeline.peak_bytes = {3, 4.5};
  timeline.events = {{0, 0, Activity::kForward, 0, 0, 0_ns, 40_ns},
                     {0, 0, Activity::kExchange, 0, 0, 40_ns, 50_ns},
                     {0, 1, Activity::kBackward, 1, 7, 10_ns, 90_ns},
                     {1, 0, Activity::kReduce, -1, -1, 90_ns, 100_ns}};
  return timeline;
}

class TimelineFile : public testing::EditedFile {
 protected:
  TimelineFile()
      : EditedFile(
            "timeline", [](const Path& path) { save_timeline(path, small_timeline()); },
            load_timeline) {}
};

TEST_F(TimelineFile, ReadsBackExactlyWhatWasWritten) {
  EXPECT_EQ(load_timeline(path_), small_timeline());
  Timeline empty = small_timeline();
  empty.events.clear();
  save_timeline(path_, empty);
  EXPECT_EQ(load_timeline(path_), empty);
}

Timeline chunked_timeline() {
  Timeline timeline = small_timeline();
  timeline.virtual_stages = 3;
  for (std::size_t i = 0; i < timeline.events.size(); ++i)
    timeline.events[i].chunk = static_cast<std::int32_t>(i % 3);
  return timeline;
}

TEST_F(TimelineFile, ChunksAreInVersionTwoAndVersionOneIsWithoutThem) {
  EXPECT_THAT(text_, AllOf(HasSubstr("weft.timeline.v1"), Not(HasSubstr("virtual_stages"))));
  save_timeline(path_, chunked_timeline());
  EXPECT_EQ(load_timeline(path_), chunked_timeline());
  text_ = read_text_file(path_);
  EXPECT_THAT(text_, HasSubstr("weft.timeline.v2"));
  EXPECT_THAT(error_after("[0,0,2,0,0,40,50,1]", "[0,0,2,0,0,40,50,3]"),
              HasSubstr("number 7 is 3, expected 0 to 2"));
  EXPECT_THAT(error_after("[0,0,2,0,0,40,50,1]", "[0,0,2,0,0,40,50]"),
              HasSubstr("8 whole numbers"));
  EXPECT_THAT(error_after("\"virtual_stages\":3", "\"virtual_stages\":1"),
              HasSubstr("\"virtual_stages\""));
  EXPECT_THAT(error_after("\"virtual_stages\":3,", ""), HasSubstr("\"virtual_stages\" is missing"));
  EXPECT_THAT(error_after("timeline.v2", "timeline.v1"),
              AllOf(HasSubstr("\"virtual_stages\" needs schema \"weft.timeline.v2\""),
                    Not(HasSubstr("did you mean"))));
  save_chrome_trace(path_, chunked_timeline());
  const auto json = nlohmann::json::parse(read_text_file(path_));
  EXPECT_EQ(json["traceEvents"].back()["args"]["chunk"], 0);
  EXPECT_EQ(json["traceEvents"][json["traceEvents"].size() - 2]["args"]["chunk"], 2);
}

TEST_F(TimelineFile, WhatBreaksItsInvariantsIsNamed) {
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[2,0,0,0,0,0,40]"),
              HasSubstr("number 0 is 2, expected 0 to 1"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0,9,0,0,0,40]"), HasSubstr("number 2 is 9"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0,0,0,0,41,40]"), HasSubstr("before it starts"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0,0,0,0,0,41]"), HasSubstr("without overlap"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0,0,0,0,0,101]"), HasSubstr("expected 0 to 100"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0,0,0,0,0,1e300]"), HasSubstr("number 6"));
  EXPECT_THAT(error_after("[0,0,0,0,0,0,40]", "[0,0]"), HasSubstr("7 whole numbers"));
  EXPECT_THAT(error_after("\"peak_bytes\":[", "\"peak_bytes\":[1.0,"), HasSubstr("2 numbers"));
  EXPECT_THAT(error_after("\"forward\"", "\"ahead\""), HasSubstr("\"activities\""));
  EXPECT_THAT(error_after("\"compute\"", "\"computed\""), HasSubstr("did you mean \"compute\"?"));
  EXPECT_THAT(error_after("timeline.v1", "timeline.v9"),
              HasSubstr("another version than \"weft.timeline.v1\" or \"weft.timeline.v2\""));
  EXPECT_THAT(error_after("weft.timeline.v1", "weft.cost.v1"),
              HasSubstr("expected \"weft.timeline.v1\" or \"weft.timeline.v2\""));
  EXPECT_THAT(error_after("\"tokens\":4096,", ""), HasSubstr("\"tokens\" is missing"));
}

TEST_F(TimelineFile, AFileCutOrChangedAnywhereIsReadOrRefusedByName) {
  const std::string whole = text_;
  for (std::size_t at = 0; at + 3 < whole.size(); at += 11) {
    text_ = whole.substr(0, at);
    EXPECT_THAT(error_after("", ""), HasSubstr(path_.string())) << "cut to " << at;
    text_ = whole;
    text_[at] = static_cast<char>(text_[at] ^ (1 << (at % 8)));
    EXPECT_THAT(error_after("", ""), AnyOf("no error", HasSubstr(path_.string()))) << at;
  }
}

TEST_F(TimelineFile, TheChromeTraceHasAnEventForEachAndNamesRanksAndStages) {
  save_chrome_trace(path_, small_timeline());
  const auto json = nlohmann::json::parse(read_text_file(path_));
  std::size_t complete = 0;
  std::size_t names = 0;
  for (const auto& event : json["traceEvents"]) {
    complete += event["ph"] == "X" ? 1 : 0;
    names += event["ph"] == "M" ? 1 : 0;
  }
  EXPECT_EQ(complete, 4u);
  EXPECT_EQ(names, 2u + 4u);
  const auto& last = json["traceEvents"].back();
  EXPECT_EQ(last["name"], "reduce");
  EXPECT_EQ(last["pid"], 1);
  EXPECT_DOUBLE_EQ(last["ts"].get<double>(), 0.09);
  EXPECT_DOUBLE_EQ(last["dur"].get<double>(), 0.01);
}

}  // namespace
}  // namespace weft
