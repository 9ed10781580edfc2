// The fixed reference cost of Weft's benchmarks: a LLaMA-7B layer stack, tensor parallelism 2, 8K
// tokens a rank.
//
// Inferred from the times that ByteScale prints for its own case study (section 8.3, Fig. 18); see
// docs/cost.md. configs/cost/reference-7b.json holds the same values; a test keeps the two equal.
#pragma once

#include "cost/cost_model.h"

namespace weft {

CostModel reference_cost_7b();

}  // namespace weft
