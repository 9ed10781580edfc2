// A plan's predicted step as a Chrome trace: open it in chrome://tracing or ui.perfetto.dev. A
// thread for each rank, a complete event for each micro-batch; a rank's waiting is the gaps.
#pragma once

#include <ostream>

#include "report/plan_view.h"

namespace weft {

void write_plan_trace(std::ostream& out, const PlanView& view);

}  // namespace weft
