// The time of a plan whose ranks are pipelines (design section 3 "Time"; ByteScale section 6.2,
// Fig. 12; docs/planner.md "Pipelines").
//
// The layers of a rank are cut evenly into p stages, each on a device of its own. A micro-batch is
// one forward and one backward pass in each stage; the passes of a slot in one stage start together
// on all its ranks and last as long as the slowest. At stage k a rank has at most p - k
// micro-batches between forward and backward (as in 1F1B), and its forward passes, and its backward
// passes, come in the order of its micro-batches. Within that, passes are served in the order in
// which they can run, so no pass ever waits for a later slot and ranks cannot wait for each other
// for ever.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft {

// Layers of stage k: as even as can be, the first stages one more.
std::int32_t layers_of_stage(std::int32_t num_layers, std::int32_t num_stages, std::int32_t stage);

// One pass of all ranks of a slot through one stage.
struct PipelinePass {
  std::int32_t slot_idx = 0;
  std::int32_t stage = 0;
  bool is_backward = false;
  Nanoseconds start;
  Nanoseconds end;
  std::int32_t chunk = 0;  // of the device's chunks of layers, where pipelines are interleaved
};

// What the simulation needs of a plan. Arrays must outlive it.
struct PipelineInput {
  const StepPlan* plan = nullptr;
  std::span<const double> layer_ns;          // [num_slots]: one layer forward, the slowest rank's
  std::span<const std::int32_t> slot_order;  // an order in which every rank meets its slots
};

// Calls `done` for every pass, each after all passes that it had to wait for; of interleaved
// pipelines (plan.virtual_stages > 1) as plan/interleaved_time.h says. REQUIRES: 1 <=
// plan.pipeline_stages <= cost.num_layers; the slot order is whole. Time O(p * micro-batches *
// log).
void run_pipelines(const PipelineInput& input, const CostModel& cost,
                   const std::function<void(const PipelinePass&)>& done);

}  // namespace weft
