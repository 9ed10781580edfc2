// The report page's files, embedded in the program at build time: src/report/web and uPlot
// (third_party/uplot). web_files.S holds their bytes.
#pragma once

#include <string_view>

namespace weft {

struct WebFiles {
  std::string_view page;         // HTML with marks such as {{SCRIPT}}
  std::string_view style;        // CSS
  std::string_view script;       // the page's scripts, joined
  std::string_view uplot;        // uPlot, a global variable `uPlot`
  std::string_view uplot_style;  // its CSS
};

WebFiles web_files();

}  // namespace weft
