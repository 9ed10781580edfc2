#include "train/metrics_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The step of a line that to_json_line wrote; nullopt for anything else, such as a line cut short.
std::optional<std::int64_t> step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\":";
  const std::size_t key = line.find(kKey);
  if (!line.starts_with('{') || !line.ends_with('}') || key == line.npos) return std::nullopt;
  std::int64_t step = 0;
  const char* const begin = line.data() + key + kKey.size();
  const auto [rest, status] = std::from_chars(begin, line.data() + line.size(), step);
  if (status != std::errc()) return std::nullopt;
  return step;
}

struct SplitLines {
  std::string kept;
  std::string superseded;
};

SplitLines split_lines(std::string_view text, std::int64_t first_step) {
  SplitLines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) break;  // cut short
    const std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    const auto step = step_of(line.substr(0, end));
    if (!step) continue;
    (*step < first_step ? lines.kept : lines.superseded) += line;
  }
  return lines;
}

void set_aside(const fs::path& path, std::string_view lines) {
  const std::string before = fs::exists(path) ? read_text_file(path) : std::string();
  write_file_atomically(path, before + std::string(lines));
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& folder, std::int64_t first_step)
    : path_(folder / "metrics.jsonl") {
  if (fs::exists(path_)) {
    const SplitLines lines = split_lines(read_text_file(path_), first_step);
    if (!lines.superseded.empty()) set_aside(folder / "metrics.superseded.jsonl", lines.superseded);
    write_file_atomically(path_, lines.kept);
    size_ = static_cast<std::int64_t>(lines.kept.size());
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  WEFT_USER_CHECK(fd_ >= 0, "cannot write '{}': {}", path_.string(), std::strerror(errno));
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

bool MetricsLog::write_pending() {
  const ssize_t written =
      ::pwrite(fd_, pending_.data(), pending_.size(), static_cast<off_t>(size_));
  if (written == static_cast<ssize_t>(pending_.size())) {
    size_ += written;
    pending_.clear();
    return true;
  }
  const int reason = written < 0 ? errno : ENOSPC;
  if (written > 0) {
    [[maybe_unused]] const int status = ::ftruncate(fd_, static_cast<off_t>(size_));
  }
  errno = reason;
  return false;
}

void MetricsLog::append(std::string_view line) {
  pending_ += line;
  pending_ += '\n';
  if (write_pending()) {
    warned_ = false;
  } else if (!std::exchange(warned_, true)) {
    log_warn("cannot write '{}': {}; its lines are kept in memory and tried again at every step",
             path_.string(), std::strerror(errno));
  }
}

void MetricsLog::close() {
  if (!pending_.empty() && !write_pending()) {
    throw IoError(fmt::format("cannot write the last lines of '{}': {}", path_.string(),
                              std::strerror(errno)));
  }
  if (::close(std::exchange(fd_, -1)) != 0) {
    throw IoError(fmt::format("cannot close '{}': {}", path_.string(), std::strerror(errno)));
  }
}

}  // namespace weft
