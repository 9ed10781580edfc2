// What happens when a plan is run, found out by running it in the plainest way: ranks are step
// counters, and a group's exchange happens when all its members stand at it. Shares no code or idea
// with validate().
#pragma once

#include <string>

#include "plan/step_plan.h"

namespace weft {

// "" when every rank reaches its end and every token was held exactly once; else "deadlock" or
// "tokens". REQUIRES: indices and ranges that lie inside the plan.
std::string flaw_when_run(const StepPlan& plan);

}  // namespace weft
