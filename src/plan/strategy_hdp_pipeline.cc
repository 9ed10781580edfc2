// Strategy "hdp" for ranks that are pipelines: drafts with several degrees, the same drafts
// levelled by what the simulation says of each rank, and the plan that suits ranks of one stage;
// evaluate() chooses among them.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/pipeline_draft.h"
#include "plan/pipeline_time.h"
#include "plan/strategy.h"

namespace weft {
namespace {

constexpr double kNearEnough = 1.002;
constexpr int kLevellings = 2;
// Targets for stacking groups, in percent of the bound.
constexpr std::int64_t kMostPercent = 260;
constexpr std::int64_t kPercentStep = 4;
// With more ranks groups find like ones, and levels gain next to nothing.
constexpr std::int32_t kMostForLevels = 256;
constexpr std::int64_t kAnyTime = std::int64_t{1} << 62;

class PipelineSearch {
 public:
  // The first `num_like` ranks are alike; for drafts.
  PipelineSearch(const PlanRequest& request, const StepPlan& header, std::int32_t num_like)
      : request_(request), header_(header), num_like_(num_like) {}

  StepPlan run() {
    try_plan(plan_of_one_stage());
    try_drafts();
    try_rivals();
    return std::move(best_);
  }
  StepPlan run_drafts() {
    try_drafts();
    return std::move(best_);
  }

  // What plan_hdp makes of ranks that have only the layers of a first stage.
  StepPlan plan_of_one_stage() const {
    PlanRequest request = request_;
    request.cluster.pipeline_stages = request.cluster.virtual_stages = 1;
    request.cost.num_layers =
        layers_of_stage(request.cost.num_layers, request_.cluster.pipeline_stages, 0);
    StepPlan plan = header_;
    plan.pipeline_stages = plan.virtual_stages = 1;
    plan.lower_bound =
        lower_bound(plan.sequences, request.cost, request.cluster, plan.capacity).best();
    plan_hdp(request, plan);
    plan.pipeline_stages = header_.pipeline_stages;
    plan.virtual_stages = header_.virtual_stages;
    plan.lower_bound = header_.lower_bound;
    return plan;
  }

 private:
  bool is_near_enough() const {
    return best_evaluation_ && static_cast<double>(best_evaluation_->makespan.value()) <=
                                   kNearEnough * static_cast<double>(header_.lower_bound.value());
  }

  bool try_plan(StepPlan plan) {
    Evaluation evaluation = evaluate(plan, request_.cost, request_.cluster);
    if (best_evaluation_ && evaluation.makespan >= best_evaluation_->makespan) return false;
    best_ = std::move(plan);
    best_evaluation_ = std::move(evaluation);
    return true;
  }

  // The plans of other strategies: where the devices of a pipeline wait for each other, rounds in
  // which all ranks run alike micro-batches can be worth more than balance.
  void try_rivals() {
    for (const auto strategy : {plan_pow2, plan_hdp_naive, plan_hdp_algorithm2}) {
      if (is_near_enough()) return;
      StepPlan plan = header_;
      strategy(request_, plan);
      try_plan(std::move(plan));
    }
  }

  void try_drafts() {
    const PipelineDraft draft(request_, header_, num_like_);
    std::vector<GangTask> tasks = draft.tasks(Nanoseconds(kAnyTime));
    try_placings(draft, tasks);
    // Sequences that alone take longer than the bound on more ranks, where that is another plan.
    std::vector<GangTask> shorter = draft.tasks(header_.lower_bound);
    const auto is_same = [](const GangTask& a, const GangTask& b) {
      return a.sequence_idx == b.sequence_idx && a.degree == b.degree;
    };
    if (!std::equal(tasks.begin(), tasks.end(), shorter.begin(), shorter.end(), is_same))
      try_placings(draft, shorter);
  }

  void try_placings(const PipelineDraft& draft, const std::vector<GangTask>& tasks) {
    try_targets(draft, tasks, PipelineDraft::Placing::kInBlocks);
    if (header_.num_ranks <= kMostForLevels)
      try_targets(draft, tasks, PipelineDraft::Placing::kOnLevels);
  }

  void try_targets(const PipelineDraft& draft, const std::vector<GangTask>& tasks,
                   PipelineDraft::Placing placing) {
    std::int64_t best_target = -1;  // of the best draft; -1: none was the best yet
    std::vector<std::int64_t> ends;
    const auto try_draft = [&](std::int64_t target, std::span<const std::int64_t> lateness) {
      const PipelineDraft::Draft made = draft.make(tasks, placing, target, lateness);
      if (try_plan(draft.plan_of(made))) {
        best_target = target;
        ends = made.ends;
      }
      return made.latest;
    };
    for (std::int64_t percent = 100; percent <= kMostPercent; percent += kPercentStep) {
      const std::int64_t target = header_.lower_bound.value() / 100 * percent;
      if (is_near_enough()) return;
      // With more room groups only take it from the rest.
      if (try_draft(target, {}) <= target) break;
    }
    for (int round = 0; round < kLevellings && best_target >= 0 && !is_near_enough(); ++round) {
      std::vector<std::int64_t> lateness(ends.size());
      for (std::size_t r = 0; r < ends.size(); ++r)
        lateness[r] = best_evaluation_->ranks[r].finish.value() - ends[r];
      const std::int64_t target = std::exchange(best_target, -1);
      try_draft(target, lateness);
    }
  }

  const PlanRequest& request_;
  const StepPlan& header_;
  std::int32_t num_like_;
  StepPlan best_;
  std::optional<Evaluation> best_evaluation_;
};

}  // namespace

void plan_hdp_pipeline(const PlanRequest& request, StepPlan& plan) {
  const StepPlan header = plan;
  PipelineSearch search(request, header, plan.num_ranks);
  if (request.cluster.is_uniform()) {
    plan = search.run();
    return;
  }
  const auto draft = [](const PlanRequest& own, std::int32_t num_like, StepPlan& into) {
    const StepPlan own_header = into;
    into = PipelineSearch(own, own_header, num_like).run_drafts();
  };
  StepPlan drafted = header;
  plan = search.plan_of_one_stage();
  if (!plan_mostly_like(request, drafted, draft)) return;
  if (evaluate(drafted, request.cost, request.cluster).makespan <
      evaluate(plan, request.cost, request.cluster).makespan)
    plan = std::move(drafted);
}

}  // namespace weft
