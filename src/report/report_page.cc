#include "report/report_page.h"

#include "base/error.h"
#include "base/json_text.h"
#include "report/web_files.h"

namespace weft {
namespace {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

// ,"key":[JSON of each view, ...]
template <class Views, class Json>
void append_views(std::string& text, std::string_view key, const Views& views, const Json& json) {
  text += fmt::format(",\"{}\":[", key);
  const char* separator = "";
  for (const auto& view : views) {
    text += separator;
    text += json(view);
    separator = ",";
  }
  text += ']';
}

std::string report_json(const Report& report) {
  std::string text =
      fmt::format("{{\"schema\":\"weft.report.v1\",\"version\":{}", json_string(report.version));
  append_views(text, "runs", report.runs, run_json);
  append_views(text, "plans", report.plans, plan_json);
  append_views(text, "timelines", report.timelines, timeline_json);
  return text + '}';
}

}  // namespace

std::string script_safe_json(std::string_view json) {
  // U+2028 and U+2029, which end a line in older scripts: E2 80 A8 and E2 80 A9.
  constexpr std::string_view kSeparatorHead = "\xe2\x80";
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (json.substr(i, 2) == kSeparatorHead && i + 2 < json.size() &&
               (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
      out += json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string report_page(const Report& report) {
  const WebFiles files = web_files();
  const std::string title = escape_html(report.title);
  const std::string data = script_safe_json(report_json(report));
  const std::pair<std::string_view, std::string_view> marks[] = {
      {"TITLE", title},       {"UPLOT_STYLE", files.uplot_style},
      {"STYLE", files.style}, {"DATA", data},
      {"UPLOT", files.uplot}, {"SCRIPT", files.script}};
  std::string page;
  std::string_view rest = files.page;
  while (true) {
    const std::size_t open = rest.find("{{");
    page += rest.substr(0, open);
    if (open == rest.npos) return page;
    rest.remove_prefix(open + 2);
    const std::size_t close = rest.find("}}");
    const std::string_view mark = rest.substr(0, close);
    bool is_known = false;
    for (const auto& [name, content] : marks) {
      if (name != mark) continue;
      page += content;
      is_known = true;
    }
    WEFT_CHECK(is_known, "page.html has a mark '{}' that nothing fills", mark);
    rest.remove_prefix(close + 2);
  }
}

}  // namespace weft
