#include "cluster/cluster_description.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/suggest.h"

namespace weft {
namespace {

constexpr const char* kSchema = "weft.cluster.v1";
constexpr std::int64_t kMostNodes = 1 << 20;
constexpr std::int64_t kMostPerNode = 1 << 10;

struct Count {
  const char* key;
  std::int64_t ClusterDescription::* value;
  std::int64_t most;
};
constexpr std::array<Count, 3> kCounts{
    {{"num_nodes", &ClusterDescription::num_nodes, kMostNodes},
     {"devices_per_node", &ClusterDescription::devices_per_node, kMostPerNode},
     {"nics_per_node", &ClusterDescription::nics_per_node, kMostPerNode}}};

enum class Kind { kRate, kShare, kTime };  // above 0; above 0 and at most 1; 0 or more
struct Number {
  const char* key;
  double ClusterDescription::* value;
  Kind kind = Kind::kRate;
};
constexpr std::array<Number, 14> kNumbers{
    {{"peak_flops_per_second", &ClusterDescription::peak_flops_per_second},
     {"gemm_share", &ClusterDescription::gemm_share, Kind::kShare},
     {"attention_share", &ClusterDescription::attention_share, Kind::kShare},
     {"memory_bytes", &ClusterDescription::memory_bytes},
     {"memory_bytes_per_second", &ClusterDescription::memory_bytes_per_second},
     {"node_link_bytes_per_second", &ClusterDescription::node_link_bytes_per_second},
     {"node_link_share", &ClusterDescription::node_link_share, Kind::kShare},
     {"node_link_latency_ns", &ClusterDescription::node_link_latency_ns, Kind::kTime},
     {"nic_bytes_per_second", &ClusterDescription::nic_bytes_per_second},
     {"nic_share", &ClusterDescription::nic_share, Kind::kShare},
     {"nic_latency_ns", &ClusterDescription::nic_latency_ns, Kind::kTime},
     {"host_link_bytes_per_second", &ClusterDescription::host_link_bytes_per_second},
     {"host_link_share", &ClusterDescription::host_link_share, Kind::kShare},
     {"host_memory_bytes", &ClusterDescription::host_memory_bytes}}};

std::vector<std::string> value_keys() {
  std::vector<std::string> keys;
  for (const Count& count : kCounts) keys.emplace_back(count.key);
  for (const Number& number : kNumbers) keys.emplace_back(number.key);
  return keys;
}

void check_sources(const ClusterDescription& cluster, const std::string& where) {
  const std::vector<std::string> keys = value_keys();
  for (const auto& [key, source] : cluster.sources) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    const auto nearest = nearest_name(key, keys);
    throw_user_error("{}: \"sources\" names \"{}\", which is no value of the file{}", where, key,
                     nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "");
  }
}

std::map<std::string, std::string> read_sources(const nlohmann::ordered_json& json,
                                                const std::string& where) {
  std::map<std::string, std::string> sources;
  if (!json.contains("sources")) return sources;
  WEFT_USER_CHECK(json["sources"].is_object(),
                  "{}: \"sources\" must be an object: key -> where its value comes from", where);
  for (const auto& [key, source] : json["sources"].items()) {
    WEFT_USER_CHECK(source.is_string(), "{}: \"sources\": \"{}\" must be a string", where, key);
    sources[key] = source.get<std::string>();
  }
  return sources;
}

}  // namespace

Mesh mesh_of_devices(const ClusterDescription& cluster, std::int64_t num_devices,
                     std::int64_t tensor, std::int64_t pipeline) {
  WEFT_USER_CHECK(num_devices >= 1 && tensor >= 1 && pipeline >= 1,
                  "cluster: {} devices in slices of {} x {} (tensor x pipeline), expected each at "
                  "least 1",
                  num_devices, tensor, pipeline);
  WEFT_USER_CHECK(num_devices <= cluster.num_devices(),
                  "cluster: {} devices asked for, '{}' has {} ({} nodes of {}); raise num_nodes in "
                  "its file, or ask for fewer",
                  num_devices, cluster.name, cluster.num_devices(), cluster.num_nodes,
                  cluster.devices_per_node);
  WEFT_USER_CHECK(tensor <= cluster.devices_per_node && cluster.devices_per_node % tensor == 0,
                  "cluster: tensor parallelism {} must divide the {} devices of a node of '{}'",
                  tensor, cluster.devices_per_node, cluster.name);
  WEFT_USER_CHECK(tensor <= num_devices / pipeline && num_devices % (tensor * pipeline) == 0,
                  "cluster: {} devices cannot be cut into ranks of {} x {} (tensor x pipeline)",
                  num_devices, tensor, pipeline);
  return {.num_ranks = num_devices / (tensor * pipeline), .tensor = tensor, .pipeline = pipeline};
}

ClusterSpec cluster_spec(const ClusterDescription& cluster, const Mesh& mesh) {
  ClusterSpec spec =
      uniform_cluster(static_cast<std::int32_t>(mesh.num_ranks),
                      static_cast<std::int32_t>(cluster.devices_per_node / mesh.tensor));
  spec.pipeline_stages = static_cast<std::int32_t>(mesh.pipeline);
  return spec;
}

double node_link_rate(const ClusterDescription& cluster) {
  return cluster.node_link_bytes_per_second * cluster.node_link_share;
}

double nic_rate(const ClusterDescription& cluster, std::int64_t devices) {
  const double share =
      std::min(1.0, static_cast<double>(cluster.nics_per_node) / static_cast<double>(devices));
  return cluster.nic_bytes_per_second * share * cluster.nic_share;
}

ClusterDescription load_cluster(const std::filesystem::path& path) {
  const nlohmann::ordered_json json = read_json_object(path, "cluster file");
  const JsonFields fields(json, fmt::format("cluster file '{}'", path.string()));
  fields.check_schema(kSchema);
  std::vector<std::string> known = value_keys();
  known.insert(known.begin(), {"schema", "name"});
  const std::vector<std::string> required = known;
  known.emplace_back("sources");
  fields.check_keys(known, required);
  ClusterDescription cluster;
  cluster.name = fields.text("name");
  for (const Count& count : kCounts) cluster.*count.value = fields.count(count.key, 1, count.most);
  for (const Number& number : kNumbers) cluster.*number.value = fields.number(number.key);
  cluster.sources = read_sources(json, fields.where());
  validate(cluster, fields.where());
  return cluster;
}

void save_cluster(const std::filesystem::path& path, const ClusterDescription& cluster) {
  validate(cluster, fmt::format("cluster file '{}'", path.string()));
  nlohmann::ordered_json json;
  json["schema"] = kSchema;
  json["name"] = cluster.name;
  for (const Count& count : kCounts) json[count.key] = cluster.*count.value;
  for (const Number& number : kNumbers) json[number.key] = cluster.*number.value;
  if (!cluster.sources.empty()) json["sources"] = cluster.sources;
  write_file_atomically(path, json.dump(2) + "\n");
}

void validate(const ClusterDescription& cluster, const std::string& where) {
  for (const Count& count : kCounts) {
    WEFT_USER_CHECK(cluster.*count.value >= 1 && cluster.*count.value <= count.most,
                    "{}: \"{}\" is {}, expected 1 to {}", where, count.key, cluster.*count.value,
                    count.most);
  }
  for (const Number& number : kNumbers) {
    const double value = cluster.*number.value;
    const bool is_good = std::isfinite(value) && value <= 1e24 &&
                         (number.kind == Kind::kTime ? value >= 0 : value > 0) &&
                         (number.kind != Kind::kShare || value <= 1);
    const char* expected = number.kind == Kind::kShare  ? "above 0 and at most 1"
                           : number.kind == Kind::kTime ? "0 or more"
                                                        : "above 0";
    WEFT_USER_CHECK(is_good, "{}: \"{}\" is {}, expected {}", where, number.key, value, expected);
  }
  check_sources(cluster, where);
}

}  // namespace weft
