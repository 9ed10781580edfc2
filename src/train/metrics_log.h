// metrics.jsonl: one line per step, each written by one write, in rising order of steps, over any
// number of interruptions (docs/metrics.md).
//
// A run that resumes at step s keeps the lines of steps below s; later ones, which will be run
// again, move to metrics.superseded.jsonl, and a line that a kill cut short is dropped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace weft {

class MetricsLog {
 public:
  // IoError or UserError when the folder cannot be written.
  MetricsLog(const std::filesystem::path& folder, std::int64_t first_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // `line` without its end. A full disk must not end a run that could still save: the line is kept
  // and tried again with the next one, and a warning says so once.
  void append(std::string_view line);
  // IoError when lines are still unwritten.
  void close();

 private:
  bool write_pending();

  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t size_ = 0;  // whole lines only
  std::string pending_;
  bool warned_ = false;
};

}  // namespace weft
