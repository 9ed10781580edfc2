#include "sim/step_end.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

struct Collective {
  double ns = 0;
  double node_bytes = 0;
  double nic_bytes = 0;
};

// Reduce-scatter or all-gather of `bytes` a device: they move the same.
Collective collective(double bytes, const StepEndSpec& spec, double per_node, double nodes) {
  Collective result;
  result.node_bytes = bytes * (per_node - 1) / per_node;
  result.nic_bytes = bytes / per_node * (nodes - 1) / nodes;
  if (per_node > 1)
    result.ns += result.node_bytes / spec.node_bytes_per_second * 1e9 +
                 (per_node - 1) * spec.node_latency_ns;
  if (nodes > 1)
    result.ns +=
        result.nic_bytes / spec.nic_bytes_per_second * 1e9 + (nodes - 1) * spec.nic_latency_ns;
  return result;
}

Nanoseconds rounded_up(double ns) { return Nanoseconds(static_cast<std::int64_t>(std::ceil(ns))); }

}  // namespace

// The trainer sums in two halves, each of which sends its (N - 1) / N of the bytes, and updates all
// parameters on every rank.
StepEndSpec measured_step_end(const CostModel& cost, std::int32_t num_ranks) {
  StepEndSpec spec;
  if (cost.gradient_bytes <= 0) return spec;
  spec.gradient_bytes = spec.weight_bytes = spec.optimizer_bytes = cost.gradient_bytes;
  spec.memory_bytes_per_second =
      cost.optimizer_ns_per_byte > 0 ? 2e9 / cost.optimizer_ns_per_byte : 0;
  spec.node_bytes_per_second = cost.reduce_ns_per_byte > 0
                                   ? 1e9 / cost.reduce_ns_per_byte
                                   : std::numeric_limits<double>::infinity();
  spec.node_latency_ns = num_ranks > 1 ? cost.reduce_fixed_ns / 2 / (num_ranks - 1) : 0;
  return spec;
}

StepEnd step_end(const StepEndSpec& spec, std::int32_t num_ranks, std::int32_t ranks_per_node) {
  StepEnd end;
  if (spec.gradient_bytes <= 0) return end;
  const double per_node = std::min(num_ranks, ranks_per_node);
  const double nodes = std::ceil(num_ranks / per_node);
  const Collective scatter = collective(spec.gradient_bytes, spec, per_node, nodes);
  const Collective gather = collective(spec.weight_bytes, spec, per_node, nodes);
  end.reduce_scatter = rounded_up(scatter.ns);
  end.all_gather = rounded_up(gather.ns);
  if (spec.memory_bytes_per_second > 0)
    end.optimizer = rounded_up(2 * spec.optimizer_bytes / spec.memory_bytes_per_second * 1e9);
  end.node_bytes = scatter.node_bytes + gather.node_bytes;
  end.nic_bytes = scatter.nic_bytes + gather.nic_bytes;
  return end;
}

}  // namespace weft
