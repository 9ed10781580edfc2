// How many cores this process may use: not what the machine has, but the smaller of its affinity
// mask and its control groups' CPU time.
#pragma once

#include <optional>

#include "machine/system_text.h"

namespace weft {

struct CoreCount {
  int hardware = 1;                // online in the machine
  int affinity = 1;                // sched_getaffinity: taskset, cpusets, batch systems
  std::optional<double> cpu_time;  // cores' worth of time that control groups allow; may be 1.5
  // Threads that can run at once without being throttled, at least 1.
  int usable() const;
};

// The strictest limit of this process's groups and their ancestors; nullopt without one.
std::optional<double> cpu_time_limit(const ReadSystemText& read);
CoreCount count_cores(const ReadSystemText& read);

}  // namespace weft
