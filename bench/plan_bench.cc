// Planning: how long it takes, and how far the plan is from its proven lower bound. Lengths are
// those of `weft plan --workload NAME --seed 1`, capacity 8K, the cost is the fixed reference of a
// 7B model. The limit of a time is the bar that the planner was built for, on one core.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <chrono>
#include <cmath>

#include "base/random.h"
#include "bench/harness/bench_main.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "corpus/workload.h"
#include "cost/reference_cost.h"
#include "machine/work_clock.h"
#include "plan/planner.h"

namespace weft::bench {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::int64_t kKilo = 1 << 10;
constexpr std::int64_t kMega = 1 << 20;

struct Case {
  std::string strategy = "hdp";
  std::string workload;
  std::int32_t num_ranks = 1;
  std::int64_t context = 0;  // tokens
  std::int64_t tokens_a_rank = 64 * kKilo;
  double slowest = 1;       // speeds are drawn from here to 1
  double least_memory = 1;  // memories are drawn from here to 1
  double fixed_factor = 1;  // times the reference cost
  double hop_factor = 1;
  int num_threads = 1;
};

PlanRequest request_of(const Case& one, std::int64_t batch) {
  PlanRequest request;
  const Workload workload = parse_workload(one.workload, Tokens(one.context));
  for (const std::int64_t tokens :
       draw_lengths(workload, Tokens(one.tokens_a_rank * one.num_ranks), kSeed, batch)) {
    request.sequences.push_back({.id = static_cast<std::int64_t>(request.sequences.size()),
                                 .tokens = Tokens(tokens),
                                 .num_targets = tokens - 1});
  }
  request.cluster = uniform_cluster(one.num_ranks, 8);
  const RandomStream random(kSeed, "unequal ranks");
  for (std::uint64_t r = 0; r < static_cast<std::uint64_t>(one.num_ranks); ++r) {
    if (one.slowest < 1)
      request.cluster.speed.push_back(one.slowest + (1 - one.slowest) * random.uniform(2 * r));
    if (one.least_memory < 1) {
      request.cluster.memory.push_back(one.least_memory +
                                       (1 - one.least_memory) * random.uniform(2 * r + 1));
    }
  }
  request.cost = reference_cost_7b();
  request.cost.fixed_ns *= one.fixed_factor;
  request.cost.hop_fixed_ns *= one.hop_factor;
  request.cost.hop_ns_per_token *= one.hop_factor;
  request.options.strategy = one.strategy;
  request.options.capacity = Tokens(8 * kKilo);
  request.options.max_context = Tokens(one.context);
  request.options.num_threads = one.num_threads;
  return request;
}

// Milliseconds of the planning thread, or of the clock where there are several; budget_ratio: 1 %
// of the predicted step over them.
Row planning_time(const Case& one, double bar_ms) {
  const PlanRequest request = request_of(one, 0);
  StepPlan plan;
  Row row = measure({.name = {},
                     .unit = "ms",
                     .better = Better::kLower,
                     .sample =
                         [&] {
                           plan = {};  // a plan that was dropped before does not count
                           const auto start = std::chrono::steady_clock::now();
                           const WorkClock clock;
                           plan = make_plan(request);
                           if (one.num_threads == 1) return 1e3 * clock.elapsed_s();
                           return std::chrono::duration<double, std::milli>(
                                      std::chrono::steady_clock::now() - start)
                               .count();
                         },
                     .least_samples = 5,
                     .most_samples = 21});
  if (bar_ms > 0) {
    row.limit_name = "bar of one core";
    row.limits = {bar_ms};
  }
  row.counters = {{"sequences", static_cast<double>(plan.sequences.size())},
                  {"gap", plan.gap()},
                  {"budget_ratio", 1e3 * 0.01 * seconds(plan.makespan) / median(row.samples)}};
  return row;
}

// Predicted steps against their lower bounds: the same on every machine.
Row plan_quality(const Case& one, std::int64_t num_batches) {
  Row row;
  row.unit = "ms predicted";
  row.better = Better::kLower;
  row.limit_name = "proven lower bound";
  double sum = 0;
  double worst = 0;
  for (std::int64_t batch = 0; batch < num_batches; ++batch) {
    const StepPlan plan = make_plan(request_of(one, batch));
    row.samples.push_back(1e3 * seconds(plan.makespan));
    row.limits.push_back(1e3 * seconds(plan.lower_bound));
    sum += plan.gap();
    worst = std::max(worst, plan.gap());
  }
  row.counters = {{"gap_mean", sum / static_cast<double>(num_batches)}, {"gap_worst", worst}};
  return row;
}

// Least squares of log(time) over log(sequences) from 2048 to 131,072 ranks: 1 is linear growth.
Row planning_growth() {
  Row row;
  row.unit = "power of the sequences";
  row.better = Better::kLower;
  row.limit_name = "linear growth";
  row.limits = {1};
  double n = 0;
  double x_sum = 0;
  double y_sum = 0;
  double xx_sum = 0;
  double xy_sum = 0;
  for (const std::int32_t num_ranks : {2048, 8192, 32'768, 131'072}) {
    const Row time =
        planning_time({.workload = "github", .num_ranks = num_ranks, .context = 2 * kMega}, 0);
    const double ms = median(time.samples);
    const double x = std::log(time.counters[0].second);
    const double y = std::log(ms);
    n += 1;
    x_sum += x;
    y_sum += y;
    xx_sum += x * x;
    xy_sum += x * y;
    row.counters.emplace_back(fmt::format("ms_{}", num_ranks), ms);
    row.counters.emplace_back(fmt::format("ns_a_sequence_{}", num_ranks),
                              1e6 * ms / time.counters[0].second);
  }
  row.samples = {(n * xy_sum - x_sum * y_sum) / (n * xx_sum - x_sum * x_sum)};
  return row;
}

void add_quality(Suite& suite, const std::string& name, const Case& one, std::int64_t batches) {
  suite.add("plan_quality/" + name, [=] { return plan_quality(one, batches); });
}

int run(int argc, char** argv) {
#ifdef M_MMAP_MAX
  // Memory that a plan gave back serves the next one: docs/bench.md says why.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
  Suite suite;
  const auto add_time = [&](const std::string& name, const Case& one, double bar_ms) {
    suite.add("plan/" + name, [=] { return planning_time(one, bar_ms); });
  };
  for (const char* workload : {"github", "byted"}) {
    const std::string mix = workload;
    const Case small{.workload = mix, .num_ranks = 64, .context = 256 * kKilo};
    add_time("hdp/" + mix + "-64", small, 0);
    add_quality(suite, "hdp/" + mix + "-64", small, 10);
    for (const std::int64_t context : {256 * kKilo, 512 * kKilo, kMega, 2 * kMega}) {
      const Case one{.workload = mix, .num_ranks = 512, .context = context};
      const std::string name = fmt::format("hdp/{}-512-{}", mix, format_count(context));
      add_time(name, one, 5);
      add_quality(suite, name, one, 20);
    }
    for (const std::int64_t context : {256 * kKilo, 2 * kMega}) {
      Case one{.workload = mix, .num_ranks = 512, .context = context};
      const std::string name = fmt::format("/{}-512-{}", mix, format_count(context));
      one.fixed_factor = 10;
      add_quality(suite, "hdp-fixed-x10" + name, one, 10);
      one.fixed_factor = 1;
      one.hop_factor = 4;
      add_quality(suite, "hdp-hops-x4" + name, one, 10);
      one.hop_factor = 1;
      one.slowest = 0.6;
      add_quality(suite, "hdp-speeds" + name, one, 5);
      one.least_memory = 0.5;
      add_quality(suite, "hdp-speeds-memory" + name, one, 5);
    }
  }
  const Case large{.workload = "github", .num_ranks = 16'384, .context = 2 * kMega};
  add_time("hdp/github-16384", large, 100);
  add_quality(suite, "hdp/github-16384", large, 1);
  Case on_two = large;
  on_two.num_threads = 2;
  suite.add("plan_2threads/hdp/github-16384", [=] { return planning_time(on_two, 100); });
  // Long: seconds for each sample, and as many to draw eight billion tokens of lengths.
  Case largest = large;
  largest.num_ranks = 131'072;
  suite.add("plan_long/hdp/github-131072", [=] { return planning_time(largest, 1500); });
  suite.add("plan_long/growth/github", planning_growth);
  for (const char* strategy : {"static", "hdp-naive"}) {
    add_time(std::string(strategy) + "/github-512-256K",
             {.strategy = strategy, .workload = "github", .num_ranks = 512, .context = 256 * kKilo},
             0);
  }
  return suite.run(parse_selection(argc, argv));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
