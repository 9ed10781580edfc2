// A plan as the report draws it: boxes of ranks over time, and where the ranks' time goes.
//
// Times come from evaluate() under the given cost; a box is one micro-batch, which lasts from its
// slot's start for its own time, and its rank then waits for the slot's slowest. In pipelines a box
// is the slot from the first stage's forward to its backward pass, and boxes of a rank overlap.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/length_histogram.h"
#include "plan/evaluate.h"
#include "plan/step_plan.h"

namespace weft {

inline constexpr std::int32_t kWholeSequences = -1;

// Part of a micro-batch: what one ring has in it, or all its whole sequences together.
struct BoxPart {
  std::int32_t ring_idx = kWholeSequences;  // into PlanView::rings
  Tokens tokens{};
  std::int32_t num_sequences = 0;  // whole ones
  std::int32_t permille = 0;       // of the micro-batch's compute, c apart
};

struct PlanBox {
  std::int32_t slot_idx = 0;
  Nanoseconds own_time;  // exposed exchange and copies included
  Tokens tokens;
  double offload_ratio = 0;
  std::uint32_t first_part = 0;  // its parts end where those of the next box start
};

// Ranks that share one sequence, or a whole pack of them: groups that follow each other in a slot
// with the same ranks (plan/ring_shares.h).
struct SharedRing {
  std::int64_t longest_id = 0;  // of its sequences
  std::int32_t num_sequences = 0;
  std::int32_t degree = 0;
  Tokens tokens;  // of all its sequences on all its ranks
};

// Rank-nanoseconds of the step, summed over ranks: they add up to ranks * makespan.
struct TimeSplit {
  double compute = 0;
  double exposed_exchange = 0;
  double exposed_copies = 0;
  double wait_in_slot = 0;   // for the slowest rank of a slot; in pipelines, all waiting
  double wait_for_slot = 0;  // for the other ranks of the next slot
  double after_last = 0;     // nothing left to run
};
inline constexpr std::array<std::string_view, 6> kTimeSplitNames{
    "compute", "exposed_exchange", "exposed_copies", "wait_in_slot", "wait_for_slot", "after_last"};
std::array<double, 6> values(const TimeSplit& split);  // in the order of their names

struct PlanView {
  std::string name;
  std::string strategy;
  std::string hash;
  std::string cost_name;
  std::int64_t step = 0;
  std::int32_t pipeline_stages = 1;
  Tokens capacity{};
  Tokens tokens{};
  std::int64_t num_sequences = 0;
  Nanoseconds planned_makespan;  // as the plan says
  Nanoseconds lower_bound;
  double gap = 0;
  Evaluation evaluation;      // makespan under the given cost
  double exchange_bytes = 0;  // of K and V: one forward pass, all layers, all ranks
  TimeSplit split{};
  LengthHistogram lengths{};
  std::vector<SharedRing> rings{};         // in the order of the plan's groups
  std::vector<std::uint32_t> first_box{};  // [ranks + 1]
  std::vector<PlanBox> boxes{};            // rank by rank, in execution order
  std::vector<BoxPart> parts{};
  std::vector<std::string> notes{};
};

// Validates the plan. `name` is what the page calls it. The cluster is one of equal ranks: a plan
// file does not say how fast each one is, nor which ranks share a node; `ranks_per_node` does, for
// costs with node hops.
PlanView view_plan(const StepPlan& plan, const CostModel& cost, const std::string& name,
                   std::int32_t ranks_per_node = 8);

// Compact: columns, not objects.
std::string plan_json(const PlanView& view);

}  // namespace weft
