// How fast a tier copies.
#pragma once

#include "base/units.h"
#include "memory/offload_tier.h"

namespace weft {

// Bytes per second of writing or of reading, the slower of the two: the median of three rounds of
// `bytes`, after one that does not count, because the first makes the file grow and later steps
// write where earlier ones did. Throws what the tier says.
double measure_offload_rate(OffloadTier& tier, Bytes bytes = 32_MiB);

}  // namespace weft
