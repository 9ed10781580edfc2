// Best-fit packing of sequences into bins of a fixed number of tokens. No bin is ever over its
// capacity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace weft {

struct PackableSequence {
  std::int32_t sequence_idx = 0;
  Tokens tokens;
};

// Each sequence goes into the fullest bin that still holds it, in the order given; O(n log n).
// REQUIRES: every sequence fits into an empty bin. Returns each bin's sequence_idx in that order.
std::vector<std::vector<std::int32_t>> pack_best_fit(std::span<const PackableSequence> sequences,
                                                     Tokens capacity);

}  // namespace weft
