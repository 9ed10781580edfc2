// The time of a plan whose pipelines are interleaved: every device holds V chunks of layers
// (plan/pass_order.h says in which order it runs them, and what it may hold).
//
// As in plan/pipeline_time.h the passes of a slot in one virtual stage start together on all its
// ranks and last as long as the slowest. A pass starts when each of its devices is free and none of
// them has a pass ready that comes earlier in the order.
#pragma once

#include <functional>

#include "plan/pipeline_time.h"

namespace weft {

// As run_pipelines. REQUIRES: plan.virtual_stages > 1, and p * V divides cost.num_layers.
void run_interleaved(const PipelineInput& input, const CostModel& cost,
                     const std::function<void(const PipelinePass&)>& done);

}  // namespace weft
