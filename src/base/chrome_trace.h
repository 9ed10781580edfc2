// Events of the Chrome trace format (chrome://tracing, Perfetto), each one JSON object. Whoever
// writes a trace joins them with commas inside {"traceEvents": [...]}.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

std::string chrome_process_name(std::int64_t process, std::string_view name);
std::string chrome_thread_name(std::int64_t process, std::int64_t thread, std::string_view name);

// Something that lasted ("ph": "X").
struct ChromeEvent {
  std::string_view name;
  std::string_view category;
  std::int64_t process = 0;
  std::int64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;
  std::string_view arguments = {};  // members of a JSON object: "\"slot\":3"; may be empty
};
std::string chrome_event(const ChromeEvent& event);

}  // namespace weft
