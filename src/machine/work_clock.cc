#include "machine/work_clock.h"

#include <time.h>

namespace weft {

Nanoseconds thread_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return Nanoseconds(static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
}

double thread_cpu_seconds() { return seconds(thread_cpu_time()); }

}  // namespace weft
