// The report page: runs, plans and Timelines -> one HTML file that needs nothing else, no network
// above all.
//
// The data stands in the page as JSON; the page's script draws it. The same input gives the same
// bytes. docs/report.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/plan_view.h"
#include "report/run_view.h"
#include "report/timeline_view.h"

namespace weft {

struct Report {
  std::string title{};  // of the window
  std::string version;  // of the program, for the page's foot
  std::vector<RunView> runs{};
  std::vector<PlanView> plans{};
  std::vector<TimelineView> timelines{};
};

std::string report_page(const Report& report);

// JSON that may stand inside a <script> element: whatever could end it, or the line, is escaped
// inside strings, where alone it can occur.
std::string script_safe_json(std::string_view json);

}  // namespace weft
