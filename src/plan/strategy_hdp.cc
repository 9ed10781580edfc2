#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/evaluate.h"
#include "plan/hdp_search.h"
#include "plan/plan_builder.h"
#include "plan/small_search.h"
#include "plan/strategy.h"

namespace weft {

namespace {

// With few sequences, sharing a whole pack (static), packing longs and shorts in turn (naive) or
// balancing greedily (algorithm2) is sometimes better than groups that each have a slot; all are
// plans of this plan space, so they are candidates.
constexpr std::size_t kFewSequences = 1000;
// Of a full micro-batch's linear work: where its fixed cost is more, fewer micro-batches can be
// worth more than balance.
constexpr double kDearShare = 0.25;
// Of the bound: a plan of ranks that are mostly alike is good enough then.
constexpr double kNearEnough = 1.01;

void append_schedule(const GangSchedule& schedule, StepPlan& plan) {
  PlanBuilder builder(plan);
  std::vector<std::size_t> packs(schedule.packs.size());
  std::iota(packs.begin(), packs.end(), 0);
  std::stable_sort(packs.begin(), packs.end(), [&](std::size_t a, std::size_t b) {
    return schedule.packs[a].before_group < schedule.packs[b].before_group;
  });
  auto next = packs.begin();
  const auto append_packs_before = [&](std::int32_t group_idx) {
    for (; next != packs.end() && schedule.packs[*next].before_group <= group_idx; ++next) {
      builder.open_slot();
      for (const std::int32_t sequence_idx : schedule.packs[*next].sequences) {
        builder.add_whole(sequence_idx, schedule.packs[*next].rank);
      }
    }
  };
  for (std::size_t g = 0; g < schedule.groups.size(); ++g) {
    append_packs_before(static_cast<std::int32_t>(g));
    builder.open_slot();
    builder.add_shared(schedule.groups[g].sequence_idx, schedule.groups[g].ranks);
  }
  append_packs_before(kAfterAllGroups);
}

// The odd ranks get nothing.
void plan_like_ranks_alone(const PlanRequest& request, std::int32_t num_like, StepPlan& plan) {
  PlanRequest alone = request;
  alone.cluster.num_ranks = num_like;
  if (!alone.cluster.speed.empty()) alone.cluster.speed.resize(static_cast<std::size_t>(num_like));
  alone.cluster.memory.clear();
  const std::int32_t num_ranks = std::exchange(plan.num_ranks, num_like);
  plan_hdp(alone, plan);
  plan.num_ranks = num_ranks;
  plan.ranks.resize(static_cast<std::size_t>(num_ranks));
}

// Ranks that are not all alike: taken as like ones and a few odd ones, and where that falls short
// one by one.
void plan_hdp_unlike(const PlanRequest& request, StepPlan& plan) {
  const StepPlan header = plan;
  if (!plan_mostly_like(request, plan, plan_hdp_like)) return plan_hdp_uneven(request, plan);
  const Nanoseconds makespan = evaluate(plan, request.cost, request.cluster).makespan;
  if (static_cast<double>(makespan.value()) <=
      kNearEnough * static_cast<double>(header.lower_bound.value()))
    return;
  Nanoseconds best = makespan;
  const auto try_plan = [&](StepPlan other) {
    const Nanoseconds own = evaluate(other, request.cost, request.cluster).makespan;
    if (own >= best) return;
    best = own;
    plan = std::move(other);
  };
  StepPlan other = header;
  plan_hdp_uneven(request, other);
  try_plan(std::move(other));
  // Where sequences are few, one on a slow rank may take longer than all of them without it.
  other = header;
  if (plan.sequences.size() <= kFewSequences &&
      plan_mostly_like(request, other, plan_like_ranks_alone))
    try_plan(std::move(other));
}

struct Candidate {
  StepPlan plan;
  Evaluation evaluation;
};

// The plans of the other strategies, for steps of few sequences.
std::vector<Candidate> rivals(const PlanRequest& request, const StepPlan& header) {
  std::vector<Candidate> found;
  const auto add = [&](auto strategy, Tokens max_context) {
    PlanRequest rival = request;
    rival.options.max_context = max_context;
    Candidate& candidate = found.emplace_back();
    candidate.plan = header;
    strategy(rival, candidate.plan);
    candidate.evaluation = evaluate(candidate.plan, request.cost, request.cluster);
  };
  add(plan_hdp_naive, Tokens(0));
  add(plan_static, header.sequences.front().tokens);
  add(plan_static, request.options.capacity * header.num_ranks);
  // Several sequences in one ring: fewer micro-batches, better where one costs much; and its groups
  // may lie inside nodes where others do not.
  add(plan_pow2, Tokens(0));
  // Packs before it balances: better where a micro-batch costs much.
  add(plan_hdp_algorithm2, Tokens(0));
  if (request.cluster.is_uniform()) {
    add(plan_hdp_many, Tokens(0));
  } else {
    add(plan_hdp_unlike, Tokens(0));
  }
  return found;
}

void plan_many_like(const PlanRequest& request, StepPlan& plan) {
  const CostModel& cost = request.cost;
  const double full = cost.linear_ns_per_token * static_cast<double>(plan.capacity.value());
  if (cost.fixed_ns <= kDearShare * full) return plan_hdp_many(request, plan);
  StepPlan rounds = plan;
  plan_pow2(request, rounds);
  plan_hdp_many(request, plan);
  if (evaluate(rounds, cost, request.cluster).makespan <
      evaluate(plan, cost, request.cluster).makespan)
    plan = std::move(rounds);
}

Nanoseconds best_makespan(const std::vector<Candidate>& candidates) {
  Nanoseconds best(std::numeric_limits<std::int64_t>::max());
  for (const Candidate& candidate : candidates)
    best = std::min(best, candidate.evaluation.makespan);
  return best;
}

}  // namespace

void plan_hdp(const PlanRequest& request, StepPlan& plan) {
  if (request.cluster.pipeline_stages > 1) return plan_hdp_pipeline(request, plan);
  if (request.options.offload) return plan_hdp_offload(request, plan);
  if (plan.sequences.size() > kFewSequences && request.cluster.is_uniform())
    return plan_many_like(request, plan);
  const bool is_uniform = request.cluster.is_uniform();
  if (!is_uniform && (plan.sequences.size() > kFewSequences || !request.cluster.memory.empty()))
    return plan_hdp_unlike(request, plan);
  const StepPlan header = plan;
  plan.ranks.resize(static_cast<std::size_t>(plan.num_ranks));
  if (plan.sequences.empty()) return;
  std::vector<Candidate> candidates = rivals(request, header);
  append_schedule(search_gang_schedule(request, plan, best_makespan(candidates)), plan);
  Evaluation own = evaluate(plan, request.cost, request.cluster);
  candidates.insert(candidates.begin(), {std::move(plan), std::move(own)});
  if (is_small_step(request, header)) {
    if (const auto items = search_small(request, header, best_makespan(candidates))) {
      Candidate& candidate = candidates.emplace_back();
      candidate.plan = header;
      append_items(*items, candidate.plan);
      candidate.evaluation = evaluate(candidate.plan, request.cost, request.cluster);
    }
  }
  const Nanoseconds limit = equal_makespan(best_makespan(candidates));
  const auto cost_of = [&](const Candidate& candidate) {
    const Evaluation& evaluation = candidate.evaluation;
    return std::tuple(evaluation.makespan > limit, evaluation.exchange_tokens,
                      evaluation.sharded_sequences, evaluation.makespan);
  };
  const auto chosen = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const Candidate& a, const Candidate& b) { return cost_of(a) < cost_of(b); });
  plan = std::move(chosen->plan);
}

}  // namespace weft
