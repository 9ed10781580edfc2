// What the C library does with memory that was freed: small tensors (block_cache.h has the large
// ones), messages and plans come from it.
#pragma once

namespace weft {

// The C library maps large requests one by one and gives the free end of a heap back to the system,
// where every step would fetch it again, fresh page by fresh page. After this call it does neither
// below sizes that no step reaches with such memory. For the whole process; without effect on C
// libraries that have no such switch.
void keep_freed_memory();

}  // namespace weft
