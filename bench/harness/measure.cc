#include "bench/harness/measure.h"

#include <chrono>

namespace weft::bench {

Row measure(const Measurement& measurement) {
  using Clock = std::chrono::steady_clock;
  Row row;
  row.name = measurement.name;
  row.unit = measurement.unit;
  row.better = measurement.better;
  for (int i = 0; i < measurement.warm_up; ++i) {
    if (measurement.limit) measurement.limit();
    measurement.sample();
  }
  const auto start = Clock::now();
  const auto passed_s = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (int i = 0; i < measurement.most_samples; ++i) {
    if (i >= measurement.least_samples && passed_s() > measurement.enough_s) break;
    if (measurement.limit) row.limits.push_back(measurement.limit());
    row.samples.push_back(measurement.sample());
  }
  if (measurement.limit) row.limit_name = measurement.limit_name;
  return row;
}

}  // namespace weft::bench
