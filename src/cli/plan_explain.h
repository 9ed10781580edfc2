// What weft plan --explain prints about one sequence: text for people, and a member of the plan's
// JSON.
#pragma once

#include <string>

#include "plan/explain.h"

namespace weft {

void print_explanation(const SequenceExplanation& about, const StepPlan& plan);

// `"explanation": {...}`, for write_plan_json.
std::string explanation_json_member(const SequenceExplanation& about);

}  // namespace weft
