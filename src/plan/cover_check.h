// The part of validate() that looks at tokens: every token of every sequence is held once.
#pragma once

#include <cstdint>
#include <span>

#include "plan/step_plan.h"

namespace weft {

// `group_of_sequence` [sequences]: a plan group index, kNoGroup when a sequence has none. UserError
// of kind "token twice", "token missing" or "sequence in two groups". REQUIRES: all indices and
// ranges of the plan's pieces have been checked.
void check_cover(const StepPlan& plan, std::span<const std::int32_t> group_of_sequence);

}  // namespace weft
