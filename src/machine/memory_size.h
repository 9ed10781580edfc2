// How much memory this process may still take: the smaller of what the machine has left and what
// its control groups leave.
#pragma once

#include <optional>

#include "base/units.h"
#include "machine/system_text.h"

namespace weft {

struct MemorySize {
  Bytes total;                       // of the machine
  Bytes available;                   // MemAvailable: free, or reclaimable without swapping
  std::optional<Bytes> group_limit;  // strictest control group limit below `total`
  std::optional<Bytes> group_left;   // least (limit - used) over those groups
  // What can still be allocated.
  Bytes usable() const;
};

MemorySize read_memory_size(const ReadSystemText& read);

// The line "NAME   12345 kB" of a text like /proc/meminfo; `name` with its colon.
std::optional<Bytes> kibibytes_field(std::string_view text, std::string_view name);

// Size of the largest last-level cache that one core sees; 0 when the kernel does not say.
Bytes last_level_cache(const ReadSystemText& read);

}  // namespace weft
