#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace weft {
namespace {

spdlog::color_mode color_mode() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color != nullptr && *no_color != '\0' ? spdlog::color_mode::never
                                                  : spdlog::color_mode::automatic;
}

// One sink for the process: a log is the one thing that is global by nature.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger created("weft",
                           std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color_mode()));
    created.set_pattern("%n: %^%l%$ %v");
    created.flush_on(spdlog::level::debug);
    return created;
  }();
  return instance;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(spdlog_level(level)); }

void log_message(LogLevel level, std::string_view message) {
  logger().log(spdlog_level(level), spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace weft
