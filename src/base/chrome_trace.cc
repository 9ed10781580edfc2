#include "base/chrome_trace.h"

#include <fmt/format.h>

#include "base/json_text.h"

namespace weft {
namespace {

// The format counts in microseconds.
double microseconds(std::int64_t nanoseconds) { return 1e-3 * static_cast<double>(nanoseconds); }

}  // namespace

std::string chrome_process_name(std::int64_t process, std::string_view name) {
  return fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", process,
                     json_string(name));
}

std::string chrome_thread_name(std::int64_t process, std::int64_t thread, std::string_view name) {
  return fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                     process, thread, json_string(name));
}

std::string chrome_event(const ChromeEvent& event) {
  return fmt::format(
      R"({{"name":{},"cat":{},"ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{{}}}}})",
      json_string(event.name), json_string(event.category), microseconds(event.start_ns),
      microseconds(event.duration_ns), event.process, event.thread, event.arguments);
}

}  // namespace weft
