// simulate_step: one step of a plan as discrete events on int64 nanoseconds.
//
// A micro-batch is a forward and a backward pass in each stage; a pass of a slot runs on all its
// ranks at once and lasts as long as its slowest member. Passes wait for one another as
// plan/pipeline_time.h states (1F1B carried over to groups; with one stage, slots in turn), and
// devices serve them in the order in which they became ready. Hops cost what the cost model says,
// in rings inside a node and in others. Unlike evaluate(), the simulator knows that rings which
// leave one node together share its NICs while they run, so that a pass can be slowed down and sped
// up while it lasts. At the end gradients are reduced and the sharded optimizer runs.
//
// What is aggregated: a pass is one event, not one for each layer and hop. All layers of a stage
// are alike, so a pass lasts layers times one layer; and the hops of a ring are those of its
// slowest link. sim/ring_layers.h simulates single layers and hops, and bounds the difference.
//
// With virtual stages a device holds V chunks of layers instead of one (interleaved 1F1B,
// plan/pass_order.h).
//
// Without contention and the end of the step, step_time is evaluate()'s makespan,
// to the nanosecond. Deterministic; O(passes * log).
#pragma once

#include "cluster/cluster_spec.h"
#include "cost/cost_model.h"
#include "plan/step_plan.h"
#include "sim/step_end.h"
#include "sim/timeline.h"

namespace weft {

struct HopLinks {
  // Rings that may leave a node at full speed at once; more share the NICs. 0: no limit.
  double full_speed_rings = 0;
  // Backward sends the messages that the trainer sends (src/attention/ring.h): K and V D - 1 times
  // and their gradients D times, the last of which nothing hides. Otherwise, as the planner counts,
  // backward exposes backward_ratio times what forward does.
  bool has_backward_messages = false;
};

// Bytes on the fullest device of a rank.
struct MemorySpec {
  double state_bytes = 0;
  double token_bytes = 0;         // activations of a resident token, all layers of a rank
  double logits_token_bytes = 0;  // of a token of the micro-batch in the last stage
};

struct SimulationInput {
  const StepPlan* plan = nullptr;
  const CostModel* cost = nullptr;
  const ClusterSpec* cluster = nullptr;
  HopLinks links;
  StepEndSpec end;
  MemorySpec memory;
  bool keep_events = true;  // false: an empty list of events, everything else as usual
  // 0: every micro-batch takes its typical time; else which made-up one (sim/execution_spread.h).
  std::int32_t execution = 0;
};

// REQUIRES: validate(plan) passes. UserError as evaluate().
Timeline simulate_step(const SimulationInput& input);

}  // namespace weft
