#include "report/web_files.h"

// The linker knows these by their names alone.
extern "C" {
extern const char weft_report_page[], weft_report_page_end[];
extern const char weft_report_style[], weft_report_style_end[];
extern const char weft_report_script[], weft_report_script_end[];
extern const char weft_report_uplot[], weft_report_uplot_end[];
extern const char weft_report_uplot_style[], weft_report_uplot_style_end[];
}

namespace weft {

WebFiles web_files() {
  return {.page = {weft_report_page, weft_report_page_end},
          .style = {weft_report_style, weft_report_style_end},
          .script = {weft_report_script, weft_report_script_end},
          .uplot = {weft_report_uplot, weft_report_uplot_end},
          .uplot_style = {weft_report_uplot_style, weft_report_uplot_style_end}};
}

}  // namespace weft
