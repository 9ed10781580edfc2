// What weft simulate prints of its strategies: a table with the best first, JSON, CSV, and what to
// change.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/simulate_input.h"
#include "sim/scenario.h"

namespace weft {

// One strategy over some steps: means, but the largest of peaks.
struct StrategyOutlook {
  std::string strategy;
  std::int64_t num_steps = 0;
  double step_s = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  double device_hours_per_billion_tokens = 0;
  IdleSplit split;
  LinkBytes bytes;
  double peak_bytes = 0;
  bool fits = true;

  void add(const StepOutlook& step);  // sums and mean rates; finish() divides
  void finish();
};

// Sorted: the best first, those that do not fit last.
struct CaseOutlook {
  SimulationCase input;
  std::int64_t num_sequences = 0;  // of the first step
  std::int64_t num_tokens = 0;
  std::int64_t longest = 0;
  std::vector<StrategyOutlook> strategies = {};
};

// Of equally fast ones the last of the list, such as `hdp` with the plan of another strategy.
void sort_best_first(std::vector<StrategyOutlook>& strategies);

void print_case(const CaseOutlook& outlook);
std::string case_json(const CaseOutlook& outlook);
std::string outlook_csv_header();
std::string outlook_csv(const StrategyOutlook& outlook);
// Of a sweep: a last column says why a combination is impossible, and is empty where there are
// figures.
std::string sweep_csv_header(const std::vector<std::string>& sweep_keys);
std::string sweep_csv(const std::vector<std::string>& sweep_values, const StrategyOutlook& outlook);
std::string impossible_csv(const std::vector<std::string>& sweep_values, std::string_view reason);
std::string sweep_header(const std::vector<std::string>& sweep_keys);
std::string sweep_row(const std::vector<std::string>& sweep_keys,
                      const std::vector<std::string>& sweep_values, const StrategyOutlook& outlook);
std::string impossible_row(const std::vector<std::string>& sweep_keys,
                           const std::vector<std::string>& sweep_values, std::string_view reason);

// What the owner of such a run might change, a line each; empty when nothing stands out.
std::vector<std::string> advice(const CaseOutlook& outlook);

}  // namespace weft
