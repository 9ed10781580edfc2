// The sequences of Megatron-LM's example of dynamic context parallelism, as its mock dataset draws
// them: log-normal lengths of a fixed seed, so that the steps behind its published times can be
// drawn again.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/step_plan.h"

namespace weft {

// The first `count` lengths: of NumPy's RandomState(0).lognormal with mean 1024 and sigma 1.5
// (Mersenne Twister, Marsaglia's polar method), cut off below 128 and above 8192.
std::vector<std::int64_t> megatron_lengths(std::size_t count);

// Step `step` of a run on `num_ranks` ranks: 8 sequences for each ring of `ring` ranks, of which
// ring r reads every (ranks / ring)-th one; ids in the order in which the rings' sequences are
// gathered. Lengths are rounded up to what a zigzag over a ring cuts evenly.
std::vector<SequenceSpec> megatron_sequences(std::int32_t num_ranks, std::int32_t ring,
                                             std::int64_t step);

}  // namespace weft
