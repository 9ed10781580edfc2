#include "machine/one_core.h"

#include <sched.h>

#include <cstddef>

namespace weft {

int current_core() { return ::sched_getcpu(); }

void stay_on_core(int core) {
  if (core < 0) return;
  cpu_set_t* mask = CPU_ALLOC(static_cast<std::size_t>(core) + 1);
  if (mask == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(core) + 1);
  CPU_ZERO_S(bytes, mask);
  CPU_SET_S(static_cast<std::size_t>(core), bytes, mask);
  ::sched_setaffinity(0, bytes, mask);
  CPU_FREE(mask);
}

}  // namespace weft
