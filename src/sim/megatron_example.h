// Megatron-LM's example of dynamic context parallelism (examples/dynamic_context_parallel),
// predicted: 12 layers of 2048 and about 1700 tokens a device in 150 to 290 ms a step, some ten
// times what a device needs for them. Such steps are bound by the host, which launches kernels one
// after the other: a micro-batch costs what its launches cost, and each further step of a ring more
// of them.
#pragma once

#include <vector>

#include "sim/paper_claims.h"
#include "sim/scenario.h"

namespace weft {

// Both fitted to the two step times published for 4 devices; the other rows are predicted.
struct MegatronCalibration {
  double launch_ns = 1.69e6;      // a micro-batch and layer forward; backward by the setup's ratio
  double ring_step_ns = 0.346e6;  // a further step of a ring, layer forward
};

struct MegatronTimes {
  double static_s = 0;
  double pow2_s = 0;
  double hdp_s = 0;
};

// Context parallelism of 4, packs of at most 4 x 2048 tokens.
inline constexpr std::int32_t kMegatronRing = 4;
inline constexpr Tokens kMegatronCapacity{2048};

// The devices are not named. Hosts of four of them ran a container of 2026: taken as GB200 NVL72,
// where NVLink joins the hosts.
Scenario megatron_scenario(std::int32_t num_ranks, const MegatronCalibration& calibration);

// Its scheduler "dp_balanced": sequences in order of arrival, a pack closed when the next one does
// not fit; then last sequences leave their packs, from the last pack with two on, until the packs
// are a multiple of the rings. REQUIRES: kMegatronRing divides the request's ranks.
StepPlan megatron_static_plan(const PlanRequest& request);

// Of the steps that the published times are means of.
MegatronTimes megatron_times(std::int32_t num_ranks, const MegatronCalibration& calibration);

// Its dynamic context parallelism (here `pow2`) over its static one and what `hdp` adds, and the
// times of both.
std::vector<PaperClaim> predict_megatron(const MegatronCalibration& calibration = {});

}  // namespace weft
