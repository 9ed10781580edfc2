// How much memory this process holds, as the kernel counts it.
#pragma once

#include "base/units.h"
#include "machine/system_text.h"

namespace weft {

// Anonymous pages in memory: what the process allocated and touched. Mapped files (a corpus, a
// checkpoint, libraries) are not in it. 0 when the kernel does not say (before Linux 4.5).
Bytes resident_size(const ReadSystemText& read);

}  // namespace weft
