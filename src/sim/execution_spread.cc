#include "sim/execution_spread.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace weft {
namespace {

// Even. The fewer the ranks, the more the largest of them varies.
std::int32_t num_executions(std::int32_t num_ranks) {
  return std::clamp(1024 / num_ranks, 8, 256) / 2 * 2;
}

// Mean 0, variance 1, by a sum of 12 uniform numbers: without libm every CPU draws the same.
double deviation(std::int32_t pair, std::int32_t rank, std::int32_t micro_batch_idx) {
  const RandomStream stream(static_cast<std::uint64_t>(pair), "spread of micro-batches");
  const std::uint64_t place =
      static_cast<std::uint64_t>(rank) << 32U | static_cast<std::uint32_t>(micro_batch_idx);
  double sum = -6;
  for (std::uint64_t i = 0; i < 12; ++i) sum += stream.uniform(12 * place + i);
  return sum;
}

}  // namespace

double execution_factor(double spread_ns, std::int32_t execution, std::int32_t rank,
                        std::int32_t micro_batch_idx, double typical_ns) {
  if (execution == 0 || spread_ns <= 0 || typical_ns <= 0) return 1;
  const double sign = execution % 2 == 0 ? 1 : -1;
  const double relative = std::sqrt(spread_ns / typical_ns);
  // Cut on both sides, or short micro-batches would take longer on average.
  return 1 + std::clamp(sign * relative * deviation((execution - 1) / 2, rank, micro_batch_idx),
                        -1.0, 1.0);
}

Nanoseconds mean_delay_by_spread(const SimulationInput& input, Nanoseconds typical_time) {
  if (input.cost->spread_ns <= 0) return Nanoseconds(0);
  SimulationInput execution = input;
  execution.keep_events = false;
  const auto typical = static_cast<double>(typical_time.value());
  const std::int32_t executions = num_executions(input.plan->num_ranks);
  double more_ns = 0;
  for (execution.execution = 1; execution.execution <= executions; ++execution.execution)
    more_ns += static_cast<double>(simulate_step(execution).micro_batches_time.value()) - typical;
  return Nanoseconds(std::llround(std::max(0.0, more_ns / executions)));
}

}  // namespace weft
