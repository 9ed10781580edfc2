// A relaxed integer program of a step on like ranks, solved by a packaged solver run as a program:
// a second opinion on bound and plan where the exact search is too slow.
//
// A binary says which degree a sequence has; T is at least the time of every sequence alone at its
// degree and the mean rank time of all of them. Where groups lie, and that ranks hold whole
// micro-batches, is left out, so no plan ends before the optimum of the program. Written apart from
// the bounds that it judges, from docs/cost.md and docs/planner.md.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "cost/cost_model.h"
#include "plan/step_plan.h"

namespace weft::testing {

struct RelaxedStep {
  std::span<const SequenceSpec> sequences;
  const CostModel* cost = nullptr;
  std::int32_t num_ranks = 1;
  Tokens capacity;
};

// In CPLEX LP format; times in milliseconds of one layer forward.
std::string relaxed_program(const RelaxedStep& step);

// Whether `glpsol` (Debian: glpk-utils) can be run.
bool has_solver();
// The optimum in nanoseconds of the whole step. Files go into `folder`. InternalError when the
// solver finds none. REQUIRES: has_solver().
double solve_relaxed(const RelaxedStep& step, const std::filesystem::path& folder);

}  // namespace weft::testing
