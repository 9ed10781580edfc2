// ClusterDescription: the hardware of a cluster of like nodes, as its owner would describe it.
//
// What is written here is what data sheets state (peaks, one direction) and, apart from it, the
// share of each peak that training reaches; no figure mixes the two. Units are in the names: FLOP/s
// of 16-bit matrix products without sparsity, bytes, bytes per second and direction, nanoseconds.
// ClusterSpec, the planner's view of ranks, is derived from it and a Mesh. Presets carry the source
// of every constant; so do files (docs/formats.md "Cluster file").
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "cluster/cluster_spec.h"

namespace weft {

struct ClusterDescription {
  std::string name;
  std::int64_t num_nodes = 1;  // that exist; a simulation may ask for fewer devices, not for more
  std::int64_t devices_per_node = 8;
  // A device.
  double peak_flops_per_second = 0;
  double gemm_share = 0;       // of the peak, in matrix products of a layer
  double attention_share = 0;  // of the peak, in the attention kernel
  double memory_bytes = 0;
  double memory_bytes_per_second = 0;
  // Links inside a node (such as NVLink), of a device.
  double node_link_bytes_per_second = 0;
  double node_link_share = 0;  // that large transfers reach
  double node_link_latency_ns = 0;
  // The way out of a node: NICs that its devices share.
  std::int64_t nics_per_node = 1;
  double nic_bytes_per_second = 0;  // of one NIC
  double nic_share = 0;             // that large transfers reach
  double nic_latency_ns = 0;
  // Between a device and its host (such as PCIe), for offload.
  double host_link_bytes_per_second = 0;
  double host_link_share = 0;
  double host_memory_bytes = 0;                // of a node
  std::map<std::string, std::string> sources;  // key -> where its value comes from
  friend bool operator==(const ClusterDescription&, const ClusterDescription&) = default;

  std::int64_t num_devices() const { return num_nodes * devices_per_node; }
};

// How devices become HDP ranks: a rank is a slice of tensor x pipeline devices. Devices of a node
// are filled tensor first, then HDP ranks, pipeline stages last, so that the ring neighbours of a
// stage share a node while they can, and stages lie on other nodes.
struct Mesh {
  std::int64_t num_ranks = 1;  // N, of the HDP axis
  std::int64_t tensor = 1;     // devices of one stage of a rank
  std::int64_t pipeline = 1;   // stages of a rank
  friend bool operator==(const Mesh&, const Mesh&) = default;

  std::int64_t num_devices() const { return num_ranks * tensor * pipeline; }
};

// The mesh of `num_devices`. UserError when they do not divide, or are more than the cluster has,
// or a tensor group would leave its node.
Mesh mesh_of_devices(const ClusterDescription& cluster, std::int64_t num_devices,
                     std::int64_t tensor, std::int64_t pipeline);

// The planner's view: equal ranks, devices_per_node / tensor of them on a node.
ClusterSpec cluster_spec(const ClusterDescription& cluster, const Mesh& mesh);

// Bytes per second and direction, as reached, for the traffic of one device: inside the node; and
// out of it when `devices` of the node's send at the same time.
double node_link_rate(const ClusterDescription& cluster);
double nic_rate(const ClusterDescription& cluster, std::int64_t devices);

// JSON with "schema": "weft.cluster.v1". UserError on unknown, missing or senseless values.
ClusterDescription load_cluster(const std::filesystem::path& path);
void save_cluster(const std::filesystem::path& path, const ClusterDescription& cluster);
// UserError that begins with `where`.
void validate(const ClusterDescription& cluster, const std::string& where);

}  // namespace weft
