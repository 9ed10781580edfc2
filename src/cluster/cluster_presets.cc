#include "cluster/cluster_presets.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace weft {
namespace {

// In whole nodes.
constexpr std::int64_t kPresetDevices = 16'384;

constexpr const char* kAssumed = "assumed; measure it on your own machines";

// What the presets share: what is no data-sheet figure, and the source of it.
ClusterDescription cluster_of(std::string name, std::int64_t devices_per_node = 8) {
  ClusterDescription cluster;
  cluster.name = std::move(name);
  cluster.num_nodes = (kPresetDevices + devices_per_node - 1) / devices_per_node;
  cluster.devices_per_node = devices_per_node;
  cluster.gemm_share = 0.7;
  cluster.attention_share = 0.55;
  cluster.node_link_latency_ns = 5'000;
  cluster.nic_latency_ns = 10'000;
  cluster.node_link_share = 0.8;
  cluster.nic_share = 0.8;
  cluster.host_link_share = 0.8;
  cluster.host_memory_bytes = 2e12;
  for (const char* key : {"num_nodes", "gemm_share", "attention_share", "node_link_latency_ns",
                          "nic_latency_ns", "node_link_share", "nic_share", "host_link_share"})
    cluster.sources[key] = kAssumed;
  return cluster;
}

void set_device(ClusterDescription& cluster, double peak, double memory, double memory_rate,
                const std::string& source) {
  cluster.peak_flops_per_second = peak;
  cluster.memory_bytes = memory;
  cluster.memory_bytes_per_second = memory_rate;
  cluster.sources["peak_flops_per_second"] = source + ": BF16 tensor core, dense";
  cluster.sources["memory_bytes"] = source;
  cluster.sources["memory_bytes_per_second"] = source;
}

struct HostLink {
  const char* name;
  double bytes_per_second;  // a device, one direction
};

// `node_link` in both directions together, as NVLink is advertised.
void set_links(ClusterDescription& cluster, double node_link, std::int64_t nics, double nic_bits,
               const HostLink& host_link, const std::string& source) {
  cluster.node_link_bytes_per_second = node_link / 2;
  cluster.nics_per_node = nics;
  cluster.nic_bytes_per_second = nic_bits / 8;
  cluster.host_link_bytes_per_second = host_link.bytes_per_second;
  cluster.sources["node_link_bytes_per_second"] =
      source + fmt::format(": NVLink {:.0f} GB/s in both directions", node_link / 1e9);
  cluster.sources["nics_per_node"] = source;
  cluster.sources["nic_bytes_per_second"] = source + fmt::format(": {:.0f} Gb/s", nic_bits / 1e9);
  cluster.sources["host_link_bytes_per_second"] =
      source + fmt::format(": {}, {:.0f} GB/s a direction", host_link.name,
                           host_link.bytes_per_second / 1e9);
  cluster.sources["devices_per_node"] = source;
  cluster.sources["host_memory_bytes"] = source;
}

constexpr const char* kDgxA100 = "NVIDIA DGX A100 640GB data sheet";
constexpr const char* kDgxH100 = "NVIDIA DGX H100 data sheet";
constexpr const char* kDgxH200 = "NVIDIA DGX H200 data sheet";
constexpr const char* kGb200 = "NVIDIA GB200 NVL72 data sheet";

std::vector<ClusterDescription> presets() {
  std::vector<ClusterDescription> list;
  // PCIe 4.0 x16 and 5.0 x16: 16 and 32 GT/s a lane, 128b/130b.
  constexpr HostLink kPcie4{.name = "PCIe", .bytes_per_second = 31.5e9};
  constexpr HostLink kPcie5{.name = "PCIe", .bytes_per_second = 63e9};
  // 450 GB/s a direction for the two devices of a Grace processor.
  constexpr HostLink kChipToChip{.name = "NVLink-C2C", .bytes_per_second = 225e9};
  list.push_back(cluster_of("a100-80g"));
  set_device(list.back(), 312e12, 80e9, 2.039e12, "NVIDIA A100 80GB SXM data sheet");
  set_links(list.back(), 600e9, 8, 200e9, kPcie4, kDgxA100);
  // The A100 with a slower NVLink, in nodes of 4 NICs.
  list.push_back(cluster_of("a800"));
  set_device(list.back(), 312e12, 80e9, 2.039e12, "NVIDIA A800 80GB SXM data sheet");
  set_links(list.back(), 400e9, 4, 200e9, kPcie4,
            "A800 nodes of Zeppelin (arXiv 2509.21841), 4 x 200 Gb/s; host as DGX A100");
  list.push_back(cluster_of("h800"));
  set_device(list.back(), 989e12, 80e9, 3.35e12, "NVIDIA H800 SXM data sheet");
  set_links(list.back(), 400e9, 8, 400e9, kPcie5, "H800 nodes of 8 NICs; otherwise as DGX H100");
  list.push_back(cluster_of("h100"));
  set_device(list.back(), 989e12, 80e9, 3.35e12, "NVIDIA H100 SXM data sheet");
  set_links(list.back(), 900e9, 8, 400e9, kPcie5, kDgxH100);
  list.push_back(cluster_of("h200"));
  set_device(list.back(), 989e12, 141e9, 4.8e12, "NVIDIA H200 SXM data sheet");
  set_links(list.back(), 900e9, 8, 400e9, kPcie5, kDgxH200);
  // A node is what NVLink joins: a rack of 18 hosts of 4 devices, 36 processors of 480 GB.
  list.push_back(cluster_of("gb200", 72));
  set_device(list.back(), 2500e12, 186e9, 8e12, kGb200);
  set_links(list.back(), 1800e9, 72, 400e9, kChipToChip, kGb200);
  list.back().host_memory_bytes = 36 * 480e9;
  return list;
}

}  // namespace

std::span<const std::string> cluster_preset_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const ClusterDescription& cluster : presets()) names.push_back(cluster.name);
    return names;
  }();
  return kNames;
}

ClusterDescription find_cluster(const std::string& name_or_path) {
  for (ClusterDescription& cluster : presets()) {
    if (cluster.name == name_or_path) return std::move(cluster);
  }
  if (name_or_path.find('/') != std::string::npos || std::filesystem::exists(name_or_path))
    return load_cluster(name_or_path);
  const auto nearest = nearest_name(name_or_path, cluster_preset_names());
  throw_user_error("cluster '{}' is neither a file nor a preset ({}){}", name_or_path,
                   fmt::join(cluster_preset_names(), ", "),
                   nearest ? fmt::format("; did you mean '{}'?", *nearest) : "");
}

}  // namespace weft
