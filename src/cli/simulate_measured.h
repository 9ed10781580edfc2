// weft simulate with nothing but a measured cost file: steps of the model and the machine that weft
// profile timed, on any number of such ranks.
#pragma once

#include <string>
#include <vector>

#include "cli/simulate_input.h"
#include "sim/timeline.h"

namespace weft {

struct MeasuredStep {
  std::string strategy;
  double planned_s = 0;  // makespan that the plan itself states
  Timeline timeline;     // of the typical execution, without events
  Nanoseconds spread;    // the mean over executions is longer by (sim/execution_spread.h)

  double step_s() const { return seconds(timeline.step_time + spread); }
};

// Every strategy, every step. UserError names a flag that is missing.
std::vector<MeasuredStep> simulate_measured(const SimulateFlags& flags);

void print_measured(const SimulateFlags& flags, const std::vector<MeasuredStep>& steps);
// One object: "steps" holds what each step of each strategy takes.
std::string measured_json(const SimulateFlags& flags, const std::vector<MeasuredStep>& steps);

}  // namespace weft
