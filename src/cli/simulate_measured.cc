#include "cli/simulate_measured.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/planner.h"
#include "sim/execution_spread.h"
#include "sim/step_simulator.h"

namespace weft {
namespace {

PlanRequest measured_request(const SimulateFlags& flags) {
  PlanFlags plan = flags.sequences;
  const std::int64_t ranks = parse_count(flags.ranks, "--ranks");
  WEFT_USER_CHECK(ranks >= 1 && ranks <= kMostRanks, "simulate: --ranks is {}, expected 1 to {}",
                  flags.ranks, kMostRanks);
  plan.num_ranks = static_cast<std::int32_t>(ranks);
  plan.ranks_per_node = flags.ranks_per_node > 0 ? flags.ranks_per_node : plan.num_ranks;
  plan.capacity = flags.capacity;
  plan.cost = flags.cost;
  if (flags.strategy != "all") plan.strategy = flags.strategy;
  return request_without_sequences(plan);
}

double in_seconds(double share, const Timeline& timeline) {
  return share * seconds(timeline.step_time);
}

// Of the step with what spread adds, which is waiting for other ranks.
IdleSplit split_with_spread(const MeasuredStep& step) {
  IdleSplit split = step.timeline.split;
  if (step.step_s() <= 0) return split;
  for (const ShareName& share : kShareNames)
    split.*share.member *= seconds(step.timeline.step_time) / step.step_s();
  split.data_parallel_bubble += seconds(step.spread) / step.step_s();
  return split;
}

struct Row {
  std::string strategy;
  double step_s = 0, micro_batches_s = 0, spread_s = 0, exposed_s = 0, reduction_s = 0,
         optimizer_s = 0;
  double tokens = 0, exchange_bytes = 0;
};

// Means of a strategy's steps.
std::vector<Row> rows_of(const std::vector<MeasuredStep>& steps) {
  std::vector<Row> rows;
  for (const MeasuredStep& step : steps) {
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.strategy == step.strategy; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{.strategy = step.strategy});
    const auto count = static_cast<double>(
        std::count_if(steps.begin(), steps.end(),
                      [&](const MeasuredStep& other) { return other.strategy == step.strategy; }));
    const Timeline& t = step.timeline;
    row->step_s += step.step_s() / count;
    row->spread_s += seconds(step.spread) / count;
    row->micro_batches_s += seconds(t.micro_batches_time) / count;
    row->exposed_s += in_seconds(t.split.exposed_exchange, t) / count;
    row->reduction_s += in_seconds(t.split.reduction, t) / count;
    row->optimizer_s += in_seconds(t.split.optimizer, t) / count;
    row->tokens += static_cast<double>(t.tokens) / count;
    row->exchange_bytes += (t.bytes.node_exchange + t.bytes.nic_exchange) / count;
  }
  std::reverse(rows.begin(), rows.end());  // as sort_best_first()
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.step_s < b.step_s; });
  return rows;
}

}  // namespace

std::vector<MeasuredStep> simulate_measured(const SimulateFlags& flags) {
  WEFT_USER_CHECK(!flags.ranks.empty(), "simulate: --cost {} alone needs --ranks", flags.cost);
  WEFT_USER_CHECK(!flags.capacity.empty(), "simulate: --cost {} alone needs --capacity",
                  flags.cost);
  PlanRequest request = measured_request(flags);
  const std::span<const std::string> strategies =
      flags.strategy == "all" ? strategy_names() : std::span(&flags.strategy, 1);
  std::vector<MeasuredStep> steps;
  for (std::int64_t batch = 0; batch < std::max<std::int64_t>(1, flags.num_batches); ++batch) {
    request.options.step = flags.sequences.step + batch;
    request.sequences = some_sequences_of_step(flags.sequences, request, request.options.step);
    for (const std::string& strategy : strategies) {
      request.options.strategy = strategy;
      request.options.offload = flags.offload && strategy == "hdp";
      const StepPlan plan = make_plan(request);
      SimulationInput input;
      input.plan = &plan;
      input.cost = &request.cost;
      input.cluster = &request.cluster;
      input.links.has_backward_messages = true;
      input.end = measured_step_end(request.cost, plan.num_ranks);
      input.keep_events = false;
      const Timeline typical = simulate_step(input);
      const Nanoseconds spread = mean_delay_by_spread(input, typical.micro_batches_time);
      steps.push_back({strategy, seconds(plan.makespan), typical, spread});
    }
  }
  return steps;
}

void print_measured(const SimulateFlags& flags, const std::vector<MeasuredStep>& steps) {
  const CostModel cost = load_cost_model(flags.cost);
  fmt::print("cost       {}: {}\n", cost.name, cost.source);
  fmt::print("ranks      {}, {} tokens each in a micro-batch\n", flags.ranks, flags.capacity);
  if (cost.gradient_bytes <= 0)
    fmt::print("the cost file does not say what the end of a step takes: micro-batches only\n");
  fmt::print("\n{:<15}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>12}{:>14}\n", "strategy", "step s",
             "batches s", "spread s", "exposed s", "reduce s", "update s", "tokens/s", "exchange");
  for (const Row& row : rows_of(steps)) {
    fmt::print("{:<15}{:>11.4f}{:>11.4f}{:>11.4f}{:>11.4f}{:>11.4f}{:>11.4f}{:>12.0f}{:>14}\n",
               row.strategy, row.step_s, row.micro_batches_s, row.spread_s, row.exposed_s,
               row.reduction_s, row.optimizer_s, row.step_s > 0 ? row.tokens / row.step_s : 0,
               format_bytes(Bytes(static_cast<std::int64_t>(row.exchange_bytes))));
  }
}

std::string measured_json(const SimulateFlags& flags, const std::vector<MeasuredStep>& steps) {
  nlohmann::ordered_json json;
  json["cost"] = load_cost_model(flags.cost).name;
  json["steps"] = nlohmann::ordered_json::array();
  for (const MeasuredStep& step : steps) {
    const Timeline& t = step.timeline;
    nlohmann::ordered_json one;
    one["strategy"] = step.strategy;
    one["step"] = t.step;
    one["ranks"] = t.num_ranks;
    one["tokens"] = t.tokens;
    one["step_s"] = step.step_s();
    one["planned_s"] = step.planned_s;
    one["micro_batches_s"] = seconds(t.micro_batches_time);
    one["spread_s"] = seconds(step.spread);
    const IdleSplit split = split_with_spread(step);
    for (const ShareName& share : kShareNames) one[share.key] = split.*share.member;
    one["exchange_bytes"] = t.bytes.node_exchange + t.bytes.nic_exchange;
    one["reduction_bytes"] = t.bytes.node_reduction + t.bytes.nic_reduction;
    json["steps"].push_back(std::move(one));
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace weft
