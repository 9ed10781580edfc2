// The least time in which a few sequences can end that do not all fit the cluster side by side.
//
// A relaxation of any plan: a slot is a set of sequences; it takes at least as many ranks as hold
// their tokens, for at least as long as the longest of them takes; slots run whenever there are
// ranks for them. Its optimum is a lower bound on the makespan (docs/planner.md "crowded").
#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct CrowdJob {
  std::int64_t tokens = 0;  // at most what all ranks hold
  double ns = 0;
};

struct Crowd {
  std::int64_t num_ranks = 1;
  std::int64_t capacity = 1;  // tokens of each
  double enough = 0;          // a known bound: only more is of interest
};

// The optimum of the first m jobs for the largest m that the budget of placements allows; 0 when it
// is not seen to be above `enough`. At most kMostCrowdJobs jobs, those that matter most first.
inline constexpr std::size_t kMostCrowdJobs = 9;
double crowded_time(std::span<const CrowdJob> jobs, const Crowd& crowd);

}  // namespace weft
