// The cluster that is this machine, as a profile found it: what other models would take here.
//
// The rates are those with which cost_from_shape() gives the profile's own times back for the
// profiled model, trained in float32: of all that grows with tokens (gemm_share), of attention, of
// a hop.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster_description.h"
#include "cost/cost_model.h"
#include "cost/model_shape.h"

namespace weft {

// What a profile does not time. A device is what one rank computes on.
struct MeasuredMachine {
  std::int64_t num_devices = 1;
  double peak_flops_per_second = 0;  // of a device: float32 multiply-adds from registers
  double memory_bytes = 0;           // of all devices together
  double disk_bytes_per_second = 0;  // what activations would be offloaded to
  double disk_free_bytes = 0;
};

// One node; its devices' links are the profile's hop, and so are its NICs, which nothing timed.
// `cost` is of profile_machine() for `model`. UserError when the profile shows a rate above the
// peak's, or none.
ClusterDescription measured_cluster(const std::string& name, const ModelShape& model,
                                    const CostModel& cost, const MeasuredMachine& machine);

}  // namespace weft
