#include "machine/core_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace weft {
namespace {

// cpu.max of version 2: "QUOTA PERIOD" in microseconds, or "max PERIOD".
std::optional<double> parse_cpu_max(const std::string& text) {
  const auto quota = parse_leading_integer(text);
  const std::size_t blank = text.find(' ');
  if (!quota || blank == std::string::npos) return std::nullopt;
  const auto period = parse_leading_integer(std::string_view(text).substr(blank));
  if (!period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// Version 1: cpu.cfs_quota_us is -1 without a limit.
std::optional<double> read_cfs_quota(const ReadSystemText& read, const std::string& directory) {
  const auto quota =
      parse_leading_integer(read(directory + "/cpu.cfs_quota_us").value_or(std::string()));
  const auto period =
      parse_leading_integer(read(directory + "/cpu.cfs_period_us").value_or(std::string()));
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

// cpu_set_t holds 1024 cores; machines with more need a larger mask.
int count_affinity(int hardware) {
  for (int cores = std::max(1024, hardware); cores <= 1 << 20; cores *= 2) {
    cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(cores));
    if (mask == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(cores));
    CPU_ZERO_S(size, mask);
    const bool known = ::sched_getaffinity(0, size, mask) == 0;
    const int count = known ? CPU_COUNT_S(size, mask) : 0;
    CPU_FREE(mask);
    if (known) return std::max(1, count);
  }
  return hardware;
}

}  // namespace

int CoreCount::usable() const {
  int cores = std::min(hardware, affinity);
  // Half a core more still helps; a tenth does not pay for one more thread.
  if (cpu_time) cores = std::min(cores, static_cast<int>(std::floor(*cpu_time + 0.5)));
  return std::max(1, cores);
}

std::optional<double> cpu_time_limit(const ReadSystemText& read) {
  std::optional<double> strictest;
  const auto take = [&](std::optional<double> limit) {
    if (limit && (!strictest || *limit < *strictest)) strictest = limit;
  };
  const ControlGroups groups = control_groups(read, "cpu");
  for (const std::string& directory : groups.version2) {
    take(parse_cpu_max(read(directory + "/cpu.max").value_or(std::string())));
  }
  for (const std::string& directory : groups.version1) take(read_cfs_quota(read, directory));
  return strictest;
}

CoreCount count_cores(const ReadSystemText& read) {
  CoreCount count;
  count.hardware = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  count.affinity = count_affinity(count.hardware);
  count.cpu_time = cpu_time_limit(read);
  return count;
}

}  // namespace weft
