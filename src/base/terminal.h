// What the terminal allows, and the progress line of anything that takes longer than a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weft {

// Whether redraws and colour are welcome on a stream (1 stdout, 2 stderr): a terminal, TERM is not
// "dumb", and neither NO_COLOR nor CI is set; FORCE_COLOR or CLICOLOR_FORCE turns colour on
// regardless.
bool allows_redraw(int fd);
bool allows_color(int fd);
int terminal_columns(int fd);  // 80 when unknown

// One line on stderr: "label 45 % 1.2 GiB of 2.7 GiB, 310 MiB/s, 5 s left". On a terminal it is
// redrawn ten times a second; elsewhere one line is printed every ten seconds, so that a log shows
// life.
class Progress {
 public:
  enum class Unit { kBytes, kCount };
  // total < 0: unknown; then no share and no time left are shown.
  Progress(std::string label, std::int64_t total, Unit unit);
  ~Progress();  // clears the redrawn line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  std::string text(std::int64_t done, double elapsed_s) const;

  std::string label_;
  std::int64_t total_;
  Unit unit_;
  bool redraw_;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point next_;
};

}  // namespace weft
