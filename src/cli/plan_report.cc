#include "cli/plan_report.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "machine/work_clock.h"
#include "plan/plan_codec.h"

namespace weft {
namespace {

constexpr std::size_t kMostRanksInTable = 16;

std::int64_t count_micro_batches(const Evaluation& evaluation) {
  std::int64_t count = 0;
  for (const RankTime& rank : evaluation.ranks) count += rank.num_micro_batches;
  return count;
}

void print_rank(const std::string& label, const RankTime& rank, Nanoseconds makespan) {
  fmt::print("  {:>10} {:>13} {:>11} {:>17} {:>10} {:>10} {:>10}\n", label, rank.num_micro_batches,
             rank.tokens, rank.work, format_duration(rank.busy), format_duration(rank.finish),
             format_duration(makespan - rank.busy));
}

void print_ranks(const Evaluation& evaluation) {
  fmt::print("\n  {:>10} {:>13} {:>11} {:>17} {:>10} {:>10} {:>10}\n", "rank", "micro-batches",
             "tokens", "work (pairs)", "busy", "finish", "idle");
  if (evaluation.ranks.size() <= kMostRanksInTable) {
    for (std::size_t r = 0; r < evaluation.ranks.size(); ++r) {
      print_rank(std::to_string(r), evaluation.ranks[r], evaluation.makespan);
    }
    return;
  }
  std::vector<std::size_t> by_busy(evaluation.ranks.size());
  for (std::size_t r = 0; r < by_busy.size(); ++r) by_busy[r] = r;
  std::stable_sort(by_busy.begin(), by_busy.end(), [&](std::size_t a, std::size_t b) {
    return evaluation.ranks[a].busy < evaluation.ranks[b].busy;
  });
  const std::size_t last = by_busy.size() - 1;
  for (const auto& [label, at] : {std::pair<const char*, std::size_t>{"idlest", 0},
                                  {"p25", last / 4},
                                  {"p50", last / 2},
                                  {"p75", last * 3 / 4},
                                  {"p99", last * 99 / 100},
                                  {"busiest", last}}) {
    print_rank(fmt::format("{} {}", label, by_busy[at]), evaluation.ranks[by_busy[at]],
               evaluation.makespan);
  }
}

// K and V sent in one forward pass, all layers.
double exchange_bytes(Tokens sent, const CostModel& cost) {
  return static_cast<double>(sent.value()) * cost.kv_bytes_per_token * cost.num_layers;
}

std::string format_gigabytes(double bytes) { return fmt::format("{:.2f}", bytes / (1 << 30)); }

}  // namespace

MadePlan plan_with(PlanRequest& request, const std::string& strategy) {
  request.options.strategy = strategy;
  const Nanoseconds cpu_start = thread_cpu_time();
  const auto start = std::chrono::steady_clock::now();
  MadePlan made;
  made.plan = make_plan(request);
  made.planning_time = Nanoseconds(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
  made.planning_cpu = thread_cpu_time() - cpu_start;
  made.evaluation = evaluate(made.plan, request.cost, request.cluster);
  return made;
}

void PlanSummary::add(const MadePlan& made, const CostModel& cost) {
  const Evaluation& evaluation = made.evaluation;
  batches_.push_back(
      {.makespan_s = seconds(made.plan.makespan),
       .lower_bound_s = seconds(made.plan.lower_bound),
       .gap = made.plan.gap(),
       .idle_share = evaluation.idle_share,
       .imbalance = evaluation.imbalance,
       .exchange_bytes = exchange_bytes(evaluation.exchange_tokens, cost),
       .cross_node_bytes = exchange_bytes(evaluation.cross_node_tokens, cost),
       .micro_batches_per_rank = static_cast<double>(count_micro_batches(evaluation)) /
                                 static_cast<double>(evaluation.ranks.size()),
       .sharded = static_cast<double>(evaluation.sharded_sequences),
       .planning_ms = seconds(made.planning_time) * 1e3,
       .planning_cpu_ms = seconds(made.planning_cpu) * 1e3,
       .max_degree = evaluation.max_degree});
}

double PlanSummary::mean(double Batch::* value) const {
  double sum = 0;
  for (const Batch& batch : batches_) sum += batch.*value;
  return batches_.empty() ? 0 : sum / static_cast<double>(batches_.size());
}

double PlanSummary::quantile(double Batch::* value, double share) const {
  if (batches_.empty()) return 0;
  std::vector<double> times;
  for (const Batch& batch : batches_) times.push_back(batch.*value);
  std::sort(times.begin(), times.end());
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1) + 0.5)];
}

std::string PlanSummary::json() const {
  double gap_worst = 0;
  std::int32_t max_degree = 0;
  for (const Batch& batch : batches_) {
    gap_worst = std::max(gap_worst, batch.gap);
    max_degree = std::max(max_degree, batch.max_degree);
  }
  nlohmann::ordered_json json;
  json["strategy"] = strategy_;
  json["makespan_s"] = mean(&Batch::makespan_s);
  json["lower_bound_s"] = mean(&Batch::lower_bound_s);
  json["gap_mean"] = mean(&Batch::gap);
  json["gap_worst"] = gap_worst;
  json["planning_ms_p50"] = quantile(&Batch::planning_ms, 0.5);
  json["planning_ms_p99"] = quantile(&Batch::planning_ms, 0.99);
  json["exchange_bytes"] = mean(&Batch::exchange_bytes);
  json["idle_share"] = mean(&Batch::idle_share);
  json["max_degree"] = max_degree;
  json["sharded_sequences"] = mean(&Batch::sharded);
  return json.dump();
}

std::string PlanSummary::header() {
  return fmt::format(
      "{:<14} {:>11} {:>11} {:>8} {:>8} {:>9} {:>7} {:>9} {:>9} {:>8} {:>7} {:>8} {:>10} {:>9}",
      "strategy", "makespan s", "bound s", "gap %", "worst %", "imbalance", "idle %", "K,V GiB",
      "x-node", "shared", "degree", "mb/rank", "plan ms", "cpu ms");
}

std::string PlanSummary::row() const {
  double worst = 0;
  std::int32_t max_degree = 0;
  for (const Batch& batch : batches_) {
    worst = std::max(worst, batch.gap);
    max_degree = std::max(max_degree, batch.max_degree);
  }
  return fmt::format(
      "{:<14} {:>11.4f} {:>11.4f} {:>8.2f} {:>8.2f} {:>9.3f} {:>7.1f} {:>9} {:>9} {:>8.0f} {:>7} "
      "{:>8.2f} "
      "{:>10.2f} {:>9.2f}",
      strategy_, mean(&Batch::makespan_s), mean(&Batch::lower_bound_s), 100 * mean(&Batch::gap),
      100 * worst, mean(&Batch::imbalance), 100 * mean(&Batch::idle_share),
      format_gigabytes(mean(&Batch::exchange_bytes)),
      format_gigabytes(mean(&Batch::cross_node_bytes)), mean(&Batch::sharded), max_degree,
      mean(&Batch::micro_batches_per_rank), quantile(&Batch::planning_ms, 0.5),
      quantile(&Batch::planning_cpu_ms, 0.5));
}

void print_plan(const MadePlan& made, const CostModel& cost) {
  const StepPlan& plan = made.plan;
  const Evaluation& evaluation = made.evaluation;
  Tokens tokens;
  for (const SequenceSpec& sequence : plan.sequences) tokens += sequence.tokens;
  fmt::print("strategy       {}\n", plan.strategy);
  fmt::print("step           {}: {} sequences, {} tokens, longest {}\n", plan.step,
             plan.sequences.size(), tokens,
             plan.sequences.empty() ? Tokens(0) : plan.sequences.front().tokens);
  fmt::print("ranks          {} with a capacity of {} tokens\n", plan.num_ranks,
             format_count(plan.capacity.value()));
  if (plan.pipeline_stages > 1) {
    fmt::print(
        "pipelines      every rank is {} stages{}, {} devices in all\n", plan.pipeline_stages,
        plan.virtual_stages > 1 ? fmt::format(" of {} virtual ones", plan.virtual_stages) : "",
        std::int64_t{plan.num_ranks} * plan.pipeline_stages);
  }
  fmt::print("groups         {} (largest degree {}), {} sequences shared\n", plan.groups.size(),
             evaluation.max_degree, evaluation.sharded_sequences);
  fmt::print("slots          {} with {} micro-batches\n", plan.num_slots,
             count_micro_batches(evaluation));
  if (evaluation.offloaded_micro_batches > 0) {
    fmt::print("offload        {} micro-batches, ratio up to {:.4f}, {} of copies not hidden\n",
               evaluation.offloaded_micro_batches, evaluation.max_offload_ratio,
               format_duration(evaluation.exposed_copies));
  }
  fmt::print("makespan       {} predicted (cost: {})\n", format_duration(plan.makespan), cost.name);
  fmt::print("lower bound    {} (gap {:.2f} %)\n", format_duration(plan.lower_bound),
             100 * plan.gap());
  fmt::print(
      "exchange       {} tokens of K and V sent per layer forward, {} of them across nodes\n",
      evaluation.exchange_tokens, evaluation.cross_node_tokens);
  fmt::print("imbalance      {:.3f} (largest / mean busy time), idle {:.1f} %\n",
             evaluation.imbalance, 100 * evaluation.idle_share);
  fmt::print("planning took  {}\n", format_duration(made.planning_time));
  fmt::print("plan hash      {}\n", plan_hash(plan).hex());
  print_ranks(evaluation);
}

}  // namespace weft
