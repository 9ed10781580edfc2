// The end of a step: gradients reduced over all ranks of a stage, each rank's shard of the
// optimizer updated, weights gathered again (ZeRO-1; ByteScale section 5.1).
//
// By links: a ring inside each node first, then rings between nodes, every device of a node sending
// its own part of 1 / (ranks of a node). All devices of a node use its NICs at once. Nothing of it
// is hidden behind compute.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "cost/cost_model.h"

namespace weft {

struct StepEndSpec {
  double gradient_bytes = 0;   // of one device; 0: no reduction
  double weight_bytes = 0;     // of one device, gathered
  double optimizer_bytes = 0;  // of one device's shard, read and written once by the update
  double memory_bytes_per_second = 0;
  // Of one device and direction while all devices of a node send.
  double node_bytes_per_second = 0;
  double node_latency_ns = 0;
  double nic_bytes_per_second = 0;
  double nic_latency_ns = 0;
};

struct StepEnd {
  Nanoseconds reduce_scatter;
  Nanoseconds optimizer;
  Nanoseconds all_gather;
  double node_bytes = 0;  // sent by one device inside its node, both collectives
  double nic_bytes = 0;   // and out of it
};

// Of a measured cost (docs/cost.md "The end of a step") on ranks with one link each; no gradients
// where the cost does not say.
StepEndSpec measured_step_end(const CostModel& cost, std::int32_t num_ranks);

// For `num_ranks` ranks, `ranks_per_node` of them on a node.
StepEnd step_end(const StepEndSpec& spec, std::int32_t num_ranks, std::int32_t ranks_per_node);

}  // namespace weft
