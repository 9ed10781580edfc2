// The time that one thread had a core for. Machines are shared: what a thread computes alone is
// measured against this clock, which stands still while another program has the core.
#pragma once

#include "base/units.h"

namespace weft {

// CPU time of the calling thread so far.
Nanoseconds thread_cpu_time();
double thread_cpu_seconds();

class WorkClock {
 public:
  WorkClock() : start_(thread_cpu_seconds()) {}
  double elapsed_s() const { return thread_cpu_seconds() - start_; }

 private:
  double start_;
};

}  // namespace weft
