#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "base/units.h"

namespace weft {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

bool is_smart_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::string amount(std::int64_t value, Progress::Unit unit) {
  return unit == Progress::Unit::kBytes ? format_bytes(Bytes(value)) : fmt::format("{}", value);
}

}  // namespace

bool allows_redraw(int fd) { return is_smart_terminal(fd) && !is_set("CI"); }

bool allows_color(int fd) {
  if (is_set("FORCE_COLOR") || is_set("CLICOLOR_FORCE")) return true;
  return is_smart_terminal(fd) && !is_set("NO_COLOR") && !is_set("CI");
}

int terminal_columns(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

Progress::Progress(std::string label, std::int64_t total, Unit unit)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      redraw_(allows_redraw(STDERR_FILENO)),
      start_(Clock::now()),
      next_(start_ + std::chrono::seconds(1)) {}

Progress::~Progress() {
  if (drawn_ && redraw_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::int64_t done) {
  const auto now = Clock::now();
  if (now < next_) return;
  const std::string line = text(done, std::chrono::duration<double>(now - start_).count());
  if (redraw_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
    std::fflush(stderr);
    next_ = now + std::chrono::milliseconds(100);
  } else {
    log_info("{}", line);
    next_ = now + std::chrono::seconds(10);
  }
  drawn_ = true;
}

std::string Progress::text(std::int64_t done, double elapsed_s) const {
  const double rate = static_cast<double>(done) / std::max(elapsed_s, 1e-9);
  const std::string speed = amount(static_cast<std::int64_t>(rate), unit_) + "/s";
  if (total_ <= 0) return fmt::format("{}: {}, {}", label_, amount(done, unit_), speed);
  const double left_s =
      rate > 0 ? static_cast<double>(std::max<std::int64_t>(total_ - done, 0)) / rate : 0;
  return fmt::format("{}: {:.0f} %, {} of {}, {}, {:.0f} s left", label_,
                     100.0 * static_cast<double>(done) / static_cast<double>(total_),
                     amount(done, unit_), amount(total_, unit_), speed, left_s);
}

}  // namespace weft
