#include "plan/planner.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "plan/evaluate.h"
#include "plan/lower_bound.h"
#include "plan/strategy.h"
#include "plan/validate.h"

namespace weft {
namespace {

struct Strategy {
  std::string name;
  void (*fill)(const PlanRequest&, StepPlan&);
};

const std::array<Strategy, 3>& strategies() {
  static const std::array<Strategy, 3> kStrategies{
      {{"static", plan_static}, {"hdp-naive", plan_hdp_naive}, {"hdp", plan_hdp}}};
  return kStrategies;
}

const Strategy& find_strategy(const std::string& name) {
  for (const Strategy& strategy : strategies()) {
    if (strategy.name == name) return strategy;
  }
  const auto names = strategy_names();
  const auto nearest = nearest_name(name, names);
  throw_user_error("plan: unknown strategy '{}'; expected one of {}{}", name,
                   fmt::join(names, ", "),
                   nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
}

void check_request(const PlanRequest& request) {
  validate(request.cluster);
  const PlanOptions& options = request.options;
  WEFT_USER_CHECK(request.cluster.num_ranks <= kMostRanks, "plan: {} ranks, expected at most {}",
                  request.cluster.num_ranks, kMostRanks);
  WEFT_USER_CHECK(options.capacity >= Tokens(1) && options.capacity <= kMostTokens,
                  "plan: capacity is {} tokens, expected 1 to {}", options.capacity, kMostTokens);
  WEFT_USER_CHECK(options.max_context >= Tokens(0) && options.max_context <= kMostTokens,
                  "plan: max_context is {} tokens, expected 0 to {}", options.max_context,
                  kMostTokens);
  WEFT_USER_CHECK(options.step >= 0, "plan: step is {}, expected 0 or more", options.step);
}

void check_sequences(std::span<const SequenceSpec> sequences, std::int32_t num_ranks,
                     Tokens capacity) {
  std::vector<std::int64_t> ids;
  ids.reserve(sequences.size());
  for (const SequenceSpec& sequence : sequences) {
    WEFT_USER_CHECK(sequence.tokens >= Tokens(1),
                    "plan: sequence {} has {} tokens, expected at least 1", sequence.id,
                    sequence.tokens);
    WEFT_USER_CHECK(sequence.num_targets >= 0 && sequence.num_targets <= sequence.tokens.value(),
                    "plan: sequence {} has {} targets, expected 0 to its {} tokens", sequence.id,
                    sequence.num_targets, sequence.tokens);
    const std::int64_t needed = ranks_needed(sequence.tokens, capacity);
    WEFT_USER_CHECK(
        needed <= num_ranks,
        "plan: sequence {} has {} tokens, but {} ranks with a capacity of {} tokens hold {} "
        "together; "
        "it needs at least {} ranks, a larger capacity, or a policy that splits long sequences",
        sequence.id, sequence.tokens, num_ranks, capacity, capacity * num_ranks, needed);
    ids.push_back(sequence.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  WEFT_USER_CHECK(twice == ids.end(),
                  "plan: two sequences have the id {}; ids must be unique within a step", *twice);
}

}  // namespace

std::span<const std::string> strategy_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Strategy& strategy : strategies()) names.push_back(strategy.name);
    return names;
  }();
  return kNames;
}

StepPlan make_plan(const PlanRequest& request) {
  const Strategy& strategy = find_strategy(request.options.strategy);
  check_request(request);
  check_sequences(request.sequences, request.cluster.num_ranks, request.options.capacity);

  StepPlan plan;
  plan.step = request.options.step;
  plan.seed = request.options.seed;
  plan.strategy = strategy.name;
  plan.num_ranks = request.cluster.num_ranks;
  plan.capacity = request.options.capacity;
  plan.num_layers = request.cost.num_layers;
  plan.weighting = request.options.weighting;
  plan.sequences = request.sequences;
  sort_canonically(plan.sequences);

  strategy.fill(request, plan);
  plan.makespan = evaluate(plan, request.cost, request.cluster).makespan;
  plan.lower_bound =
      lower_bound(plan.sequences, request.cost, request.cluster, plan.capacity).best();
  validate(plan);
  return plan;
}

}  // namespace weft
