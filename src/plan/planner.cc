#include "plan/planner.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/parallel_parts.h"
#include "base/suggest.h"
#include "plan/evaluate.h"
#include "plan/group_costs.h"
#include "plan/like_ranks.h"
#include "plan/lower_bound.h"
#include "plan/offload.h"
#include "plan/sequence_check.h"
#include "plan/strategy.h"
#include "plan/validate.h"

namespace weft {
namespace {

constexpr int kMostPlanningThreads = 1024;

struct Strategy {
  std::string name;
  void (*fill)(const PlanRequest&, StepPlan&);
  bool knows_memory = false;  // otherwise every rank holds what the smallest holds
};

const std::array<Strategy, 6>& strategies() {
  static const std::array<Strategy, 6> kStrategies{{{"static", plan_static},
                                                    {"sorted", plan_sorted},
                                                    {"pow2", plan_pow2},
                                                    {"hdp-naive", plan_hdp_naive},
                                                    {"hdp-algorithm2", plan_hdp_algorithm2},
                                                    {"hdp", plan_hdp, true}}};
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
  check_hops(request.cost, fmt::format("plan: the cost '{}'", request.cost.name));
  const PlanOptions& options = request.options;
  WEFT_USER_CHECK(request.cluster.num_ranks <= kMostRanks, "plan: {} ranks, expected at most {}",
                  request.cluster.num_ranks, kMostRanks);
  WEFT_USER_CHECK(options.capacity >= Tokens(1) && options.capacity <= kMostTokens,
                  "plan: capacity is {} tokens, expected 1 to {}", options.capacity, kMostTokens);
  WEFT_USER_CHECK(options.max_context >= Tokens(0) && options.max_context <= kMostTokens,
                  "plan: max_context is {} tokens, expected 0 to {}", options.max_context,
                  kMostTokens);
  WEFT_USER_CHECK(request.cluster.pipeline_stages <= kMostPipelineStages,
                  "plan: {} pipeline stages, expected at most {}", request.cluster.pipeline_stages,
                  kMostPipelineStages);
  WEFT_USER_CHECK(request.cluster.pipeline_stages <= request.cost.num_layers,
                  "plan: {} pipeline stages for the {} layers of a rank (cost '{}'); a stage needs "
                  "at least one",
                  request.cluster.pipeline_stages, request.cost.num_layers, request.cost.name);
  const std::int64_t chunks =
      std::int64_t{request.cluster.pipeline_stages} * request.cluster.virtual_stages;
  WEFT_USER_CHECK(request.cluster.virtual_stages == 1 || request.cost.num_layers % chunks == 0,
                  "plan: {} pipeline stages of {} virtual stages each do not divide the {} layers "
                  "of a rank (cost '{}')",
                  request.cluster.pipeline_stages, request.cluster.virtual_stages,
                  request.cost.num_layers, request.cost.name);
  WEFT_USER_CHECK(options.num_threads >= 1 && options.num_threads <= kMostPlanningThreads,
                  "plan: {} threads, expected 1 to {}", options.num_threads, kMostPlanningThreads);
  WEFT_USER_CHECK(options.step >= 0, "plan: step is {}, expected 0 or more", options.step);
}

void check_offload(const PlanRequest& request) {
  if (!request.options.offload) return;
  const CostModel& cost = request.cost;
  WEFT_USER_CHECK(request.options.strategy == "hdp",
                  "plan: strategy '{}' does not offload; use 'hdp', or leave out offload",
                  request.options.strategy);
  WEFT_USER_CHECK(
      cost.activation_bytes_per_token > 0 && cost.offload_bytes_per_second > 0,
      "plan: offload needs a cost with activation_bytes_per_token and offload_bytes_per_second; "
      "'{}' has {} and {}; see configs/cost/reference-7b-offload.json",
      cost.name, cost.activation_bytes_per_token, cost.offload_bytes_per_second);
  WEFT_USER_CHECK(request.cluster.pipeline_stages == 1,
                  "plan: offload and pipelines (here of {} stages) cannot be planned together",
                  request.cluster.pipeline_stages);
  WEFT_USER_CHECK(request.cluster.is_uniform(),
                  "plan: offload is planned for ranks of one speed and memory only; leave it out");
}

void check_sequences(std::span<const SequenceSpec> sequences, const ClusterSpec& cluster,
                     Tokens capacity) {
  Tokens all;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r)
    all += cluster.capacity_of(Rank(r), capacity);
  WEFT_USER_CHECK(all > Tokens(0),
                  "plan: no rank holds a token: {} ranks, whose memories are shares of a capacity "
                  "of {} tokens; raise the capacity or the memories",
                  cluster.num_ranks, capacity);
  for (const SequenceSpec& sequence : sequences) {
    WEFT_USER_CHECK(sequence.tokens >= Tokens(1),
                    "plan: sequence {} has {} tokens, expected at least 1", sequence.id,
                    sequence.tokens);
    WEFT_USER_CHECK(sequence.num_targets >= 0 && sequence.num_targets <= sequence.tokens.value(),
                    "plan: sequence {} has {} targets, expected 0 to its {} tokens", sequence.id,
                    sequence.num_targets, sequence.tokens);
    WEFT_USER_CHECK(
        sequence.tokens <= all,
        "plan: sequence {} has {} tokens, but {} ranks with a capacity of {} tokens hold {} "
        "together; "
        "it needs at least {} ranks, a larger capacity, or a policy that splits long sequences",
        sequence.id, sequence.tokens, cluster.num_ranks, capacity, all,
        ranks_needed(sequence.tokens, capacity));
  }
  const auto twice = repeated_id(sequences);
  WEFT_USER_CHECK(!twice, "plan: two sequences have the id {}; ids must be unique within a step",
                  *twice);
}

// The request without dead ranks, which `live` lists then, and without prices that make no
// difference.
PlanRequest live_request(const PlanRequest& request, std::vector<std::int32_t>& live) {
  PlanRequest result{.sequences = {},
                     .cluster = request.cluster,
                     .cost = simplified_cost(request.cost, request.cluster),
                     .options = request.options};
  if (request.cluster.memory.empty()) return result;
  ClusterSpec& cluster = result.cluster;
  cluster.speed.clear();
  cluster.memory.clear();
  for (std::int32_t r = 0; r < request.cluster.num_ranks; ++r) {
    if (request.cluster.capacity_of(Rank(r), request.options.capacity) == Tokens(0)) continue;
    live.push_back(r);
    if (!request.cluster.speed.empty()) cluster.speed.push_back(request.cluster.speed_of(Rank(r)));
    cluster.memory.push_back(request.cluster.memory_of(Rank(r)));
  }
  cluster.num_ranks = static_cast<std::int32_t>(live.size());
  const auto is_full = [](double memory) { return memory == 1.0; };
  if (std::all_of(cluster.memory.begin(), cluster.memory.end(), is_full)) cluster.memory.clear();
  if (cluster.num_ranks == request.cluster.num_ranks) {
    live.clear();
  } else if (result.cost.has_node_hops()) {
    // Places in a row of live ranks are no places in nodes: no group is taken to be inside one.
    cluster.ranks_per_node = 1;
    result.cost = simplified_cost(result.cost, cluster);
  }
  return result;
}

// For strategies that give all ranks the same capacity: that of the smallest.
void level_memory(const StepPlan& plan, PlanRequest& request) {
  ClusterSpec& cluster = request.cluster;
  for (std::int32_t r = 0; r < cluster.num_ranks; ++r) {
    const Tokens own = cluster.capacity_of(Rank(r), plan.capacity);
    request.options.capacity = std::min(request.options.capacity, own);
  }
  cluster.memory.clear();
  if (plan.sequences.empty()) return;
  const std::int64_t needed = ranks_needed(plan.sequences.front().tokens, request.options.capacity);
  WEFT_USER_CHECK(needed <= cluster.num_ranks,
                  "plan: {}: every rank holds what the smallest holds, {} tokens; the longest "
                  "sequence needs {} such ranks, there are {}",
                  plan.strategy, request.options.capacity, needed, cluster.num_ranks);
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
  check_offload(request);
  // What a rank holds of one micro-batch at most, offloaded or not.
  const Tokens most = request.options.offload
                          ? most_offloaded(request.options.capacity, request.cost.num_layers)
                          : request.options.capacity;
  check_sequences(request.sequences, request.cluster, most);

  StepPlan plan;
  plan.step = request.options.step;
  plan.seed = request.options.seed;
  plan.strategy = strategy.name;
  plan.capacity = request.options.capacity;
  plan.num_layers = request.cost.num_layers;
  plan.pipeline_stages = request.cluster.pipeline_stages;
  plan.virtual_stages = request.cluster.virtual_stages;
  plan.weighting = request.options.weighting;
  plan.sequences = sorted_canonically(request.sequences);

  plan.lower_bound = lower_bound(plan.sequences, request.cost, request.cluster, most).best();
  std::vector<std::int32_t> live;
  PlanRequest own = live_request(request, live);
  plan.num_ranks = own.cluster.num_ranks;
  if (!strategy.knows_memory) level_memory(plan, own);
  strategy.fill(own, plan);
  if (!live.empty()) rename_ranks(live, request.cluster.num_ranks, plan);
  if (!request.cluster.memory.empty()) {
    for (std::int32_t r = 0; r < plan.num_ranks; ++r)
      plan.rank_capacity.push_back(request.cluster.capacity_of(Rank(r), plan.capacity));
  }
  Nanoseconds makespan;
  for_each_part(request.options.num_threads, 2, [&](std::size_t part) {
    if (part == 0) {
      makespan = evaluate(plan, request.cost, request.cluster).makespan;
    } else {
      validate_work(plan);
    }
  });
  plan.makespan = makespan;
  validate_times(plan);
  return plan;
}

}  // namespace weft
