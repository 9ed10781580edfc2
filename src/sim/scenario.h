// A model on a cluster, cut into ranks in one way: what a plan is simulated for, and what the
// result means to its owner.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cluster/cluster_description.h"
#include "cost/cost_model.h"
#include "cost/model_shape.h"
#include "cost/shape_cost.h"
#include "plan/planner.h"
#include "sim/step_simulator.h"
#include "sim/timeline.h"

namespace weft {

struct Scenario {
  ModelShape model;
  ClusterDescription cluster;
  TrainingSetup setup;
  CostModel cost = {};  // of cost_from_shape(), or measured
  // The cost is measured: nothing is known of how its links are shared.
  bool has_measured_cost = false;
};

// With the cost that follows from shapes and rates. UserError when the mesh does not fit.
Scenario make_scenario(ModelShape model, ClusterDescription cluster, TrainingSetup setup);

// The planner's view of the scenario's devices.
ClusterSpec ranks_of(const Scenario& scenario);

// What the scenario's plans are made for; sequences and strategy are still to be set.
PlanRequest plan_request(const Scenario& scenario, const PlanOptions& options);

struct StepOutlook {
  Timeline timeline;
  double step_s = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // useful FLOPs (forward and backward, nothing recomputed) over all peaks
  double device_hours_per_billion_tokens = 0;
  double peak_bytes = 0;  // of the fullest device
  bool fits = true;       // that and the reserve in a device's memory
};

// The share of a device's memory that is left for buffers and fragments.
inline constexpr double kMemoryReserve = 0.1;

SimulationInput simulation_input(const Scenario& scenario, const StepPlan& plan,
                                 const ClusterSpec& cluster);
StepOutlook look_ahead(const Scenario& scenario, const StepPlan& plan, bool keep_events);

// Causal (query, key) pairs of all sequences.
double causal_pairs(std::span<const SequenceSpec> sequences);

}  // namespace weft
