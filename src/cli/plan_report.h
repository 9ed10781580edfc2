// What weft plan prints: one plan, all strategies side by side, one sequence, or a summary of many
// batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/evaluate.h"
#include "plan/planner.h"

namespace weft {

struct MadePlan {
  StepPlan plan;
  Evaluation evaluation;
  Nanoseconds planning_time;  // from lengths in memory to a validated plan
  Nanoseconds planning_cpu;   // of this thread in that time: the same on a core of its own
};

// Plans the request's sequences by the strategy and takes the time of it.
MadePlan plan_with(PlanRequest& request, const std::string& strategy);

// Figures of the plans of one strategy over several batches.
class PlanSummary {
 public:
  explicit PlanSummary(std::string strategy) : strategy_(std::move(strategy)) {}
  void add(const MadePlan& made, const CostModel& cost);
  // One JSON object, no line end. Means over the batches, unless the key says otherwise.
  std::string json() const;
  std::string row() const;  // under header()
  static std::string header();

 private:
  struct Batch {
    double makespan_s = 0;
    double lower_bound_s = 0;
    double gap = 0;
    double idle_share = 0;
    double imbalance = 0;
    double exchange_bytes = 0;
    double cross_node_bytes = 0;
    double micro_batches_per_rank = 0;
    double sharded = 0;
    double planning_ms = 0;
    double planning_cpu_ms = 0;
    std::int32_t max_degree = 0;
  };
  double mean(double Batch::* value) const;
  double quantile(double Batch::* value, double share) const;

  std::string strategy_;
  std::vector<Batch> batches_;
};

void print_plan(const MadePlan& made, const CostModel& cost);

}  // namespace weft
