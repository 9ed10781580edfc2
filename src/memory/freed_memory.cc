#include "memory/freed_memory.h"

#include <malloc.h>

namespace weft {

void keep_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  // A message of the gradient reduction is 4 MiB; a rank's small tensors and messages together are
  // below the second number. Setting either also stops the library from adapting them.
  constexpr int kMapped = 8 << 20;
  constexpr int kTrimmed = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
  ::mallopt(M_TRIM_THRESHOLD, kTrimmed);
#endif
}

}  // namespace weft
