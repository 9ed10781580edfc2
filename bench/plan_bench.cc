// Planning: how long it takes, and how far the plan is from its proven lower bound. Lengths follow
// the paper's mixes (tests/unit/plan/length_mixes.h), the cost is the fixed reference of a 7B
// model.
#include <chrono>

#include "bench/harness/bench_main.h"
#include "bench/harness/measure.h"
#include "bench/harness/suite.h"
#include "cost/reference_cost.h"
#include "machine/work_clock.h"
#include "plan/planner.h"
#include "tests/unit/plan/length_mixes.h"

namespace weft::bench {
namespace {

constexpr std::uint64_t kSeed = 1;

struct Case {
  std::string strategy;
  std::string mix;
  std::int32_t num_ranks = 1;
  std::int64_t batch = 0;        // tokens
  std::int64_t max_context = 0;  // tokens
};

PlanRequest request_of(const Case& one) {
  const auto& shares = one.mix == "github" ? testing::kGithubShares : testing::kBytedShares;
  PlanRequest request;
  request.sequences =
      testing::draw_lengths(shares, Tokens(one.batch), Tokens(one.max_context), kSeed);
  request.cluster = uniform_cluster(one.num_ranks, 8);
  request.cost = reference_cost_7b();
  request.options.strategy = one.strategy;
  request.options.capacity = Tokens(8 << 10);
  request.options.max_context = Tokens(one.max_context);
  return request;
}

// Milliseconds of the planning thread; budget_ratio: 1 % of the predicted step over them.
Row planning_time(const Case& one) {
  const PlanRequest request = request_of(one);
  StepPlan plan;
  Row row = measure({.name = {},
                     .unit = "ms",
                     .better = Better::kLower,
                     .sample =
                         [&] {
                           const WorkClock clock;
                           plan = make_plan(request);
                           return 1e3 * clock.elapsed_s();
                         },
                     .least_samples = 5,
                     .most_samples = 11});
  row.counters = {{"sequences", static_cast<double>(plan.sequences.size())},
                  {"gap", plan.gap()},
                  {"budget_ratio", 1e3 * 0.01 * seconds(plan.makespan) / median(row.samples)}};
  return row;
}

// The predicted step against its lower bound: the same on every machine.
Row plan_quality(const Case& one) {
  const StepPlan plan = make_plan(request_of(one));
  Row row;
  row.unit = "ms predicted";
  row.better = Better::kLower;
  row.samples = {1e3 * seconds(plan.makespan)};
  row.limit_name = "proven lower bound";
  row.limits = {1e3 * seconds(plan.lower_bound)};
  row.counters = {{"gap", plan.gap()}};
  return row;
}

int run(int argc, char** argv) {
  constexpr std::int64_t kKilo = 1 << 10;
  constexpr std::int64_t kMega = 1 << 20;
  Suite suite;
  const auto add = [&](const std::string& strategy, const std::string& mix, std::int32_t num_ranks,
                       std::int64_t batch, std::int64_t max_context, const std::string& suffix) {
    const Case one{strategy, mix, num_ranks, batch, max_context};
    const std::string name = fmt::format("{}/{}-{}{}", strategy, mix, num_ranks, suffix);
    suite.add("plan/" + name, [=] { return planning_time(one); });
    suite.add("plan_quality/" + name, [=] { return plan_quality(one); });
  };
  for (const char* mix : {"github", "byted"}) {
    add("hdp", mix, 64, 4 * kMega, 256 * kKilo, "");
    add("hdp", mix, 512, 32 * kMega, 256 * kKilo, "");
    add("hdp", mix, 512, 32 * kMega, 2 * kMega, "-2M");
    add("hdp", mix, 16384, 32 * kMega, 2 * kMega, "-2M");
  }
  add("static", "github", 512, 32 * kMega, 256 * kKilo, "");
  add("hdp-naive", "github", 512, 32 * kMega, 256 * kKilo, "");
  return suite.run(parse_selection(argc, argv));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::bench_main(argc, argv, weft::bench::run); }
