// The least time in which a few sequences can end that do not all fit the cluster side by side.
//
// A relaxation of any plan: a job is a sequence that holds `tokens` of the cluster's tokens for at
// least `ns`; jobs run whenever those that run together hold at most `all_tokens`. Its optimum is a
// lower bound on the makespan (docs/planner.md "crowded").
#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct CrowdJob {
  std::int64_t tokens = 0;  // at most all_tokens
  double ns = 0;
};

// The optimum of the first m jobs for the largest m that the budget of placements allows; 0 as soon
// as the jobs are seen to end within `enough`. At most kMostCrowdJobs jobs, those that matter most
// first.
inline constexpr std::size_t kMostCrowdJobs = 9;
double crowded_time(std::span<const CrowdJob> jobs, std::int64_t all_tokens, double enough);

}  // namespace weft
