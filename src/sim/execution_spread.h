// What a step loses because no two runs of equal work take equal time.
//
// Ranks that share a slot wait for the slowest, and the step ends with its last rank; the mean of
// the largest of several times is larger than the largest of their means. So the step is simulated
// in made-up executions, in each of which every micro-batch of every rank takes its own time, as
// far from the typical one as the cost file's spread says (docs/cost.md "Spread"). Drawn as f(plan
// position, execution); the executions come in pairs of opposite deviations, so a rank alone loses
// nothing.
#pragma once

#include "sim/step_simulator.h"

namespace weft {

// How much longer the micro-batches of the step take on average than `typical_time`, that of
// simulate_step() (its micro_batches_time); at least 0, and 0 where the cost has no spread. Takes 8
// times as long as simulate_step() on 128 ranks or more, up to 256 times on fewer.
Nanoseconds mean_delay_by_spread(const SimulationInput& input, Nanoseconds typical_time);

// What the time of a micro-batch that takes `typical_ns` is multiplied by in that execution, 0 to
// 2, on average over all executions 1; 1 in execution 0, the typical one.
double execution_factor(double spread_ns, std::int32_t execution, std::int32_t rank,
                        std::int32_t micro_batch_idx, double typical_ns);

}  // namespace weft
