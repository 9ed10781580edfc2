#include "cost/measured_cluster.h"

#include "base/error.h"

namespace weft {
namespace {

constexpr double kNsPerSecond = 1e9;

// The share of the peak at which `flops` take `ns`.
double share_of_peak(double flops, double ns, double peak_flops_per_second, const char* what) {
  const double share = ns > 0 ? flops / ns * kNsPerSecond / peak_flops_per_second : 0;
  WEFT_USER_CHECK(share > 0 && share <= 1,
                  "profile: {} runs at {:.3g} of the peak of {:.3g} FLOP/s, expected above 0 and "
                  "at most 1; profile again, longer and with nothing else running",
                  what, share, peak_flops_per_second);
  return share;
}

// Bytes per second at which the simulator's update (8 bytes of moments for a weight of 4, read and
// written) takes what the profile's does.
double update_rate(const CostModel& cost) {
  WEFT_USER_CHECK(cost.optimizer_ns_per_byte > 0 && cost.hop_ns_per_token > 0,
                  "profile: the update takes {} ns a byte and a hop {} ns a token, expected both "
                  "above 0; profile again, longer and with nothing else running",
                  cost.optimizer_ns_per_byte, cost.hop_ns_per_token);
  return 4 / cost.optimizer_ns_per_byte * kNsPerSecond;
}

}  // namespace

ClusterDescription measured_cluster(const std::string& name, const ModelShape& model,
                                    const CostModel& cost, const MeasuredMachine& machine) {
  const double peak = machine.peak_flops_per_second;
  const double linear_flops = layer_flops_per_token(model) +
                              head_flops_per_token(model) / static_cast<double>(model.num_layers);
  ClusterDescription cluster;
  cluster.name = name;
  cluster.devices_per_node = machine.num_devices;
  cluster.peak_flops_per_second = peak;
  cluster.gemm_share =
      share_of_peak(linear_flops, cost.linear_ns_per_token, peak, "what grows with tokens");
  cluster.attention_share =
      share_of_peak(layer_flops_per_pair(model), cost.attention_ns_per_pair, peak, "attention");
  cluster.memory_bytes = machine.memory_bytes / static_cast<double>(machine.num_devices);
  cluster.memory_bytes_per_second = update_rate(cost);
  const double link = cost.kv_bytes_per_token / cost.hop_ns_per_token * kNsPerSecond;
  cluster.node_link_bytes_per_second = cluster.nic_bytes_per_second = link;
  cluster.node_link_latency_ns = cluster.nic_latency_ns = cost.hop_fixed_ns;
  cluster.node_link_share = cluster.nic_share = cluster.host_link_share = 1;
  cluster.nics_per_node = machine.num_devices;
  cluster.host_link_bytes_per_second =
      machine.disk_bytes_per_second / static_cast<double>(machine.num_devices);
  cluster.host_memory_bytes = machine.disk_free_bytes;
  const std::string profiled = fmt::format("{} ({})", cost.source, model.name);
  for (const char* key : {"gemm_share", "attention_share"}) cluster.sources[key] = profiled;
  for (const char* key : {"node_link_bytes_per_second", "node_link_latency_ns"})
    cluster.sources[key] = "a hop of K and V between two ranks, both ways at once";
  for (const char* key : {"nic_bytes_per_second", "nic_latency_ns", "nics_per_node"})
    cluster.sources[key] = "not measured: as inside the node";
  cluster.sources["peak_flops_per_second"] = "float32 multiply-adds from registers";
  cluster.sources["memory_bytes"] = "memory that was free, divided among the devices";
  cluster.sources["memory_bytes_per_second"] =
      "the update: two moments of a weight read and written";
  cluster.sources["host_link_bytes_per_second"] = "writing to disk, divided among the devices";
  cluster.sources["host_memory_bytes"] = "space that was free on that disk";
  return cluster;
}

}  // namespace weft
