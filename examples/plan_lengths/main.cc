// How long would a step take on a cluster that does not exist yet? Reads sequence lengths (one a line) and plans them with
// every strategy of Weft's library, on the reference cost of a 7B model.
//   plan_lengths LENGTHS_FILE RANKS CAPACITY
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "cost/reference_cost.h"
#include "plan/planner.h"

namespace {

std::vector<weft::SequenceSpec> read_lengths(const char* path) {
  std::ifstream file(path);
  if (!file) weft::throw_user_error("cannot open '{}'", path);
  std::vector<weft::SequenceSpec> sequences;
  for (std::int64_t tokens = 0; file >> tokens;) {
    sequences.push_back({.id = static_cast<std::int64_t>(sequences.size()),
                         .tokens = weft::Tokens(tokens),
                         .num_targets = tokens - 1});
  }
  if (!file.eof()) weft::throw_user_error("'{}': expected one length a line", path);
  return sequences;
}

void compare_strategies(const char* path, std::int32_t num_ranks, std::int64_t capacity) {
  weft::PlanRequest request;
  request.sequences = read_lengths(path);
  request.cluster = weft::uniform_cluster(num_ranks, num_ranks);
  request.cost = weft::reference_cost_7b();
  request.options.capacity = weft::Tokens(capacity);
  for (const std::string& strategy : weft::strategy_names()) {
    request.options.strategy = strategy;
    const weft::StepPlan plan = weft::make_plan(request);
    fmt::print("{:<10} makespan {:>10}  gap {:5.2f} %\n", strategy,
               weft::format_duration(plan.makespan), 100 * plan.gap());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: plan_lengths LENGTHS_FILE RANKS CAPACITY\n");
    return 2;
  }
  try {
    compare_strategies(argv[1], std::atoi(argv[2]), std::atoll(argv[3]));
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "plan_lengths: %s\n", error.what());
    return 1;
  }
  return 0;
}
