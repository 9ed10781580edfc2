// One line of a benchmark: what was measured, and how far it is from what the machine allows.
//
// The limit is measured in the same run, alternately with the thing itself: machines are shared,
// and only figures of the same minute may be divided by each other.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace weft::bench {

enum class Better { kHigher, kLower };

struct Row {
  std::string name;  // "attention_forward/d64/4096"
  std::string unit;  // "GFLOP/s"
  Better better = Better::kHigher;
  std::vector<double> samples;
  std::string limit_name;      // "fma peak of one thread"; empty: no limit is known
  std::vector<double> limits;  // samples of it, in the same unit
  std::vector<std::pair<std::string, double>> counters;  // further numbers, by key
};

// The middle sample, or the mean of the two middle ones. REQUIRES: not empty.
double median(std::vector<double> samples);

// Where 1 is the best: p50 / limit, or limit / p50 where less is better. REQUIRES: limits, samples.
double share(const Row& row);

// {"name", "value" (p50), "unit", "better", "samples", "min", "p50", "max", "limit", "limit_name",
// "share", counters...}; limit, limit_name and share are null without a limit.
std::string to_json_line(const Row& row);

}  // namespace weft::bench
