#include "report/timeline_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "report/report_page.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Timeline idle_timeline(std::int32_t ranks, std::int32_t stages) {
  Timeline timeline;
  timeline.num_ranks = ranks;
  timeline.pipeline_stages = stages;
  timeline.peak_bytes.resize(static_cast<std::size_t>(ranks));
  return timeline;
}

// Two ranks of two stages; rank 1 stage 0 does nothing, and stage 1 of rank 0 starts late.
Timeline small_timeline() {
  Timeline timeline = idle_timeline(2, 2);
  timeline.strategy = "hdp";
  timeline.cost = "a cost";
  timeline.step = 4;
  timeline.tokens = 3000;
  timeline.micro_batches_time = Nanoseconds(80);
  timeline.step_time = Nanoseconds(100);
  timeline.split = {.compute = 0.25,
                    .exposed_exchange = 0.125,
                    .data_parallel_bubble = 0.25,
                    .pipeline_bubble = 0.3125,
                    .optimizer = 0.0625};
  timeline.bytes = {.node_exchange = 1, .nic_exchange = 20, .host_copies = 300};
  timeline.peak_bytes = {700, 900};
  const auto event = [&](int rank, int stage, Activity activity, int slot, int start, int end) {
    timeline.events.push_back({.rank = rank,
                               .stage = stage,
                               .activity = activity,
                               .micro_batch_idx = slot < 0 ? -1 : 0,
                               .slot_idx = slot,
                               .start = Nanoseconds(start),
                               .end = Nanoseconds(end)});
  };
  event(0, 0, Activity::kForward, 7, 0, 10);
  event(0, 0, Activity::kExchange, 7, 10, 12);
  event(0, 0, Activity::kBackward, 7, 40, 60);
  event(0, 1, Activity::kForward, 7, 12, 40);
  event(1, 1, Activity::kOptimizer, -1, 90, 100);
  return timeline;
}

// The events that a page's columns say.
std::vector<TimelineEvent> events_of(const nlohmann::json& json) {
  const int stages = json["stages"];
  std::vector<TimelineEvent> events;
  for (std::size_t device = 0; device + 1 < json["first_event"].size(); ++device) {
    Nanoseconds time;
    for (std::size_t e = json["first_event"][device]; e < json["first_event"][device + 1]; ++e) {
      const Nanoseconds start = time + Nanoseconds(json["event_gap"][e].get<std::int64_t>());
      time = start + Nanoseconds(json["event_ns"][e].get<std::int64_t>());
      const std::string activities = json["event_activity"];
      events.push_back(
          {.rank = static_cast<int>(device) / stages,
           .stage = static_cast<int>(device) % stages,
           .activity = static_cast<Activity>(activities[e] - '0'),
           .micro_batch_idx = json["event_micro_batch"][e],
           .slot_idx = json["event_slot"][e],
           .start = start,
           .end = time,
           .chunk = json["virtual_stages"] > 1 ? json["event_chunk"][e].get<int>() : 0});
    }
  }
  return events;
}

nlohmann::json json_of(const Timeline& timeline) {
  return nlohmann::json::parse(timeline_json(view_timeline(timeline, "t")));
}

TEST(TimelineView, FiguresAreThoseOfTheTimeline) {
  const TimelineView view = view_timeline(small_timeline(), "a name");
  EXPECT_EQ(view.name, "a name");
  EXPECT_EQ(view.timeline, small_timeline());
  EXPECT_DOUBLE_EQ(view.tokens_per_second, 3000 / 100e-9);
  EXPECT_DOUBLE_EQ(view.idle_share, 0.5625);
  EXPECT_DOUBLE_EQ(view.sent_bytes, 321);
  EXPECT_EQ(view.peak_bytes_min, 700);
  EXPECT_EQ(view.peak_bytes_median, 800);
  EXPECT_EQ(view.peak_bytes_max, 900);
  EXPECT_THAT(view.first_event, ElementsAre(0, 3, 4, 4, 5));
}

TEST(TimelineView, MedianIsTheMiddleRankOrBetweenTheMiddleTwo) {
  Timeline timeline = idle_timeline(1, 1);
  const std::vector<double> peaks{5, 1, 9, 7, 3};
  const std::vector<double> medians{5, 3, 5, 6, 5};
  for (std::size_t n = 1; n <= peaks.size(); ++n) {
    timeline.num_ranks = static_cast<std::int32_t>(n);
    timeline.peak_bytes.assign(peaks.begin(), peaks.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(view_timeline(timeline, "t").peak_bytes_median, medians[n - 1]) << n;
  }
}

TEST(TimelineView, AStepThatTakesNoTimeHasNoTokensPerSecond) {
  Timeline timeline = idle_timeline(1, 1);
  timeline.tokens = 5;
  EXPECT_TRUE(std::isnan(view_timeline(timeline, "t").tokens_per_second));
  EXPECT_TRUE(json_of(timeline)["tokens_per_s"].is_null());
  EXPECT_TRUE(json_of(timeline)["event_ns"].empty());
}

TEST(TimelineView, MoreDevicesThanAPageDrawsAreRefused) {
  Timeline timeline = idle_timeline(1 << 11, 1 << 9);
  EXPECT_EQ(view_timeline(timeline, "t").first_event.size(), (std::size_t{1} << 20) + 1);
  timeline.pipeline_stages += 1;
  try {
    view_timeline(timeline, "wide");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Timeline 'wide' has 1050624 devices"));
  }
}

TEST(TimelineJson, ColumnsHoldTheTimeline) {
  const auto json = json_of(small_timeline());
  EXPECT_EQ(json["strategy"], "hdp");
  EXPECT_EQ(json["cost"], "a cost");
  EXPECT_EQ(json["step"], 4);
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["stages"], 2);
  EXPECT_EQ(json["virtual_stages"], 1);
  EXPECT_FALSE(json.contains("event_chunk"));
  EXPECT_EQ(json["tokens"], 3000);
  EXPECT_EQ(json["micro_batches_time_ns"], 80);
  EXPECT_EQ(json["step_time_ns"], 100);
  for (const ShareName& share : kShareNames)
    EXPECT_EQ(json["split"][share.key], small_timeline().split.*share.member) << share.key;
  for (const SentName& sent : kSentNames)
    EXPECT_EQ(json["bytes"][sent.key], small_timeline().bytes.*sent.member) << sent.key;
  EXPECT_EQ(json["activities"], nlohmann::json(kActivityNames));
  EXPECT_EQ(json["peak_bytes"], nlohmann::json({700, 900}));
  EXPECT_EQ(json["event_gap"], nlohmann::json({0, 0, 28, 12, 90}));
  EXPECT_EQ(json["event_activity"], "02106");
  EXPECT_EQ(events_of(json), small_timeline().events);
}

TEST(TimelineJson, RandomEventsReadBack) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int ranks : {1, 2, 3, 5, 7, 8}) {
    Timeline timeline = idle_timeline(ranks, 1 + below(3));
    timeline.virtual_stages = 1 + below(3);
    std::int64_t last = 0;
    for (int device = 0; device < ranks * timeline.pipeline_stages; ++device) {
      std::int64_t time = 0;
      for (int e = below(6); e > 0; --e) {
        const std::int64_t start = time + below(3) * below(1 << 30);
        time = start + below(2) * below(1 << 30);
        timeline.events.push_back({.rank = device / timeline.pipeline_stages,
                                   .stage = device % timeline.pipeline_stages,
                                   .activity = static_cast<Activity>(below(7)),
                                   .micro_batch_idx = below(9) - 1,
                                   .slot_idx = below(9999) - 1,
                                   .start = Nanoseconds(start),
                                   .end = Nanoseconds(time),
                                   .chunk = below(timeline.virtual_stages)});
      }
      last = std::max(last, time);
    }
    timeline.step_time = Nanoseconds(last);
    EXPECT_EQ(events_of(json_of(timeline)), timeline.events);
  }
}

TEST(TimelineJson, StandsInThePageWithRunsAndPlans) {
  Report report{.title = "t", .version = "v"};
  report.timelines = {view_timeline(small_timeline(), "</script>"),
                      view_timeline(small_timeline(), "second")};
  const std::string page = report_page(report);
  const std::string tag = "id=\"report-data\">";
  const std::size_t begin = page.find(tag) + tag.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script", begin) - begin));
  EXPECT_TRUE(data["runs"].empty());
  EXPECT_TRUE(data["plans"].empty());
  ASSERT_EQ(data["timelines"].size(), 2U);
  EXPECT_EQ(data["timelines"][0]["name"], "</script>");
  EXPECT_EQ(events_of(data["timelines"][1]), small_timeline().events);
}

}  // namespace
}  // namespace weft
