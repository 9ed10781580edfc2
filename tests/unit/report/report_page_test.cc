#include "report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "cost/reference_cost.h"
#include "plan/planner.h"
#include "report/web_files.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunView run_called(const std::string& name) {
  RunView run;
  run.name = name;
  run.config = "# " + name;
  run.metrics.steps = {0};
  for (auto& column : run.metrics.columns) column = {1.5};
  run.metrics.plan_hashes = {"h"};
  return run;
}

// What stands between the tags of the data element.
std::string data_of(const std::string& page) {
  const std::string tag = "id=\"report-data\">";
  const std::size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script", begin) - begin);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportPage, DataReadsBackWhateverItsTextsHold) {
  for (const std::string name :
       {"plain", "</script><script>alert(1)</script>", "<!--<script>", "]]>", "{{SCRIPT}}",
        "a\xe2\x80\xa8"
        "b\xe2\x80\xa9"
        "c",
        "\"\\\n\t", "\xf0\x9f\x98\x80", "&lt;"}) {
    const std::string page =
        report_page({.title = name, .version = "v", .runs = {run_called(name)}, .plans = {}});
    const std::string data = data_of(page);
    EXPECT_THAT(data, Not(HasSubstr("<"))) << name;
    EXPECT_THAT(data, Not(HasSubstr("\xe2\x80\xa8"))) << name;
    EXPECT_EQ(nlohmann::json::parse(data)["runs"][0]["name"], name);
    EXPECT_EQ(count_of(page, "<script"), 3U) << name;
    EXPECT_EQ(count_of(page, "</script"), 3U) << name;
  }
}

TEST(ReportPage, OtherSignsNearTheLineSeparatorsStayAsTheyAre) {
  const std::string dash = json_string("\xe2\x80\x93 \xe2\x80\xaa \xe2\x82\xac");
  EXPECT_EQ(script_safe_json(dash), dash);
  EXPECT_EQ(script_safe_json("\xe2\x80"), "\xe2\x80");
  EXPECT_EQ(script_safe_json("[\"<>\"]"), "[\"\\u003c\\u003e\"]");
}

TEST(ReportPage, TitleIsEscaped) {
  const std::string page =
      report_page({.title = "<b> & </title>", .version = "v", .runs = {}, .plans = {}});
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt; &amp; &lt;/title&gt;</title>"));
}

TEST(ReportPage, AsksTheNetworkForNothing) {
  const WebFiles files = web_files();
  const std::string own =
      std::string(files.page) + std::string(files.style) + std::string(files.script);
  for (const char* request :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket",
        "EventSource", "sendBeacon", "import(", "<link"}) {
    EXPECT_THAT(own, Not(HasSubstr(request)));
    if (std::string_view(request) == "https:") continue;  // uPlot's comment says where it is from
    EXPECT_THAT(std::string(files.uplot) + std::string(files.uplot_style), Not(HasSubstr(request)));
  }
  EXPECT_THAT(own, HasSubstr("default-src 'none'"));
}

TEST(ReportPage, EmbeddedFilesAreWhole) {
  const WebFiles files = web_files();
  EXPECT_EQ(files.uplot.size(), 51081U);
  EXPECT_THAT(std::string(files.uplot.substr(0, 80)), HasSubstr("uPlot (v1.6.32)"));
  EXPECT_TRUE(files.page.starts_with("<!doctype html>"));
  EXPECT_TRUE(files.page.ends_with("</html>\n"));
  for (const std::string_view script : {files.script, files.uplot})
    EXPECT_THAT(std::string(script), Not(HasSubstr("</script")));
  EXPECT_TRUE(files.script.starts_with("'use strict';"));
}

TEST(ReportPage, SameInputGivesTheSameBytes) {
  PlanRequest request;
  request.sequences = {{.id = 1, .tokens = Tokens(3000), .num_targets = 2999},
                       {.id = 2, .tokens = Tokens(10), .num_targets = 9}};
  request.cluster = uniform_cluster(4, 4);
  request.cost = reference_cost_7b();
  request.options.capacity = Tokens(1024);
  const auto make = [&] {
    Report report{.title = "t", .version = "v", .runs = {run_called("r")}, .plans = {}};
    report.plans.push_back(view_plan(make_plan(request), request.cost, "p"));
    return report_page(report);
  };
  const std::string page = make();
  EXPECT_EQ(page, make());
  const auto data = nlohmann::json::parse(data_of(page));
  EXPECT_EQ(data["plans"][0]["tokens"], 3010);
}

}  // namespace
}  // namespace weft
