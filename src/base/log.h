// Log lines for people, on stderr: "weft: warning: message". Results go to stdout, never through here.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace weft {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

// Lowest level that is printed. Call once at start, before any thread.
void set_log_level(LogLevel level);
void log_message(LogLevel level, std::string_view message);  // thread-safe; one write per line

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kWarn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft
