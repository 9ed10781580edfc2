#include "cost/cost_model.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fields.h"

namespace weft {
namespace {

constexpr std::string_view kSchema = "weft.cost.v1";
constexpr std::int64_t kMostLayers = 1'000'000;

struct Coefficient {
  const char* key;
  double CostModel::* value;
  bool is_optional = false;
};

constexpr std::array<Coefficient, 17> kCoefficients{{
    {"attention_ns_per_pair", &CostModel::attention_ns_per_pair},
    {"linear_ns_per_token", &CostModel::linear_ns_per_token},
    {"fixed_ns", &CostModel::fixed_ns},
    {"hop_ns_per_token", &CostModel::hop_ns_per_token},
    {"hop_fixed_ns", &CostModel::hop_fixed_ns},
    {"backward_ratio", &CostModel::backward_ratio},
    {"ring_step_ns_per_token", &CostModel::ring_step_ns_per_token, true},
    {"ring_step_fixed_ns", &CostModel::ring_step_fixed_ns, true},
    {"kv_bytes_per_token", &CostModel::kv_bytes_per_token, true},
    {"activation_bytes_per_token", &CostModel::activation_bytes_per_token, true},
    {"offload_bytes_per_second", &CostModel::offload_bytes_per_second, true},
    {"host_bytes_per_rank", &CostModel::host_bytes_per_rank, true},
    {"gradient_bytes", &CostModel::gradient_bytes, true},
    {"reduce_ns_per_byte", &CostModel::reduce_ns_per_byte, true},
    {"reduce_fixed_ns", &CostModel::reduce_fixed_ns, true},
    {"optimizer_ns_per_byte", &CostModel::optimizer_ns_per_byte, true},
    {"spread_ns", &CostModel::spread_ns, true},
}};

// Left out where the file says nothing of them; 0 says something.
struct OptionalCoefficient {
  const char* key;
  std::optional<double> CostModel::* value;
};

constexpr std::array<OptionalCoefficient, 2> kOptionalCoefficients{{
    {"node_hop_ns_per_token", &CostModel::node_hop_ns_per_token},
    {"node_hop_fixed_ns", &CostModel::node_hop_fixed_ns},
}};

void check_keys(const JsonFields& fields) {
  std::vector<std::string> known{"schema", "name", "source", "num_layers"};
  std::vector<std::string> required = known;
  for (const Coefficient& coefficient : kCoefficients) {
    known.emplace_back(coefficient.key);
    if (!coefficient.is_optional) required.emplace_back(coefficient.key);
  }
  for (const OptionalCoefficient& coefficient : kOptionalCoefficients)
    known.emplace_back(coefficient.key);
  fields.check_keys(known, required);
}

void check_values(const CostModel& cost, const std::string& where) {
  WEFT_USER_CHECK(cost.num_layers >= 1, "cost file {}: \"num_layers\" is {}, expected at least 1",
                  where, cost.num_layers);
  for (const Coefficient& coefficient : kCoefficients) {
    const double value = cost.*coefficient.value;
    WEFT_USER_CHECK(std::isfinite(value) && value >= 0,
                    "cost file {}: \"{}\" is {}, expected a finite number, 0 or more", where,
                    coefficient.key, value);
  }
  check_hops(cost, fmt::format("cost file {}", where));
}

}  // namespace

HopCost CostModel::hop(bool is_in_node) const {
  if (!is_in_node) return {.ns_per_token = hop_ns_per_token, .fixed_ns = hop_fixed_ns};
  return {.ns_per_token = node_hop_ns_per_token.value_or(hop_ns_per_token),
          .fixed_ns = node_hop_fixed_ns.value_or(hop_fixed_ns)};
}

bool CostModel::has_node_hops() const {
  const HopCost inside = hop(true);
  return inside.ns_per_token != hop_ns_per_token || inside.fixed_ns != hop_fixed_ns;
}

void check_hops(const CostModel& cost, std::string_view where) {
  const auto check = [&](std::string_view key, std::optional<double> inside, double between) {
    WEFT_USER_CHECK(!inside || (*inside >= 0 && *inside <= between),
                    "{}: \"node_{}\" is {}, expected 0 to \"{}\", {}: a hop inside a node costs no "
                    "more than one between nodes",
                    where, key, *inside, key, between);
  };
  check("hop_ns_per_token", cost.node_hop_ns_per_token, cost.hop_ns_per_token);
  check("hop_fixed_ns", cost.node_hop_fixed_ns, cost.hop_fixed_ns);
}

CostModel load_cost_model(const std::filesystem::path& path) {
  const nlohmann::ordered_json json = read_json_object(path, "cost file");
  const JsonFields fields(json, fmt::format("cost file '{}'", path.string()));
  fields.check_schema(kSchema);
  check_keys(fields);
  CostModel cost;
  cost.name = fields.text("name");
  cost.source = fields.text("source");
  cost.num_layers = static_cast<std::int32_t>(fields.count("num_layers", 1, kMostLayers));
  for (const Coefficient& coefficient : kCoefficients) {
    if (fields.has(coefficient.key)) cost.*coefficient.value = fields.number(coefficient.key);
  }
  for (const OptionalCoefficient& coefficient : kOptionalCoefficients) {
    if (fields.has(coefficient.key)) cost.*coefficient.value = fields.number(coefficient.key);
  }
  check_hops(cost, fields.where());
  return cost;
}

void save_cost_model(const std::filesystem::path& path, const CostModel& cost) {
  check_values(cost, fmt::format("'{}'", path.string()));
  nlohmann::ordered_json json;
  json["schema"] = kSchema;
  json["name"] = cost.name;
  json["source"] = cost.source;
  json["num_layers"] = cost.num_layers;
  for (const Coefficient& coefficient : kCoefficients) {
    // Terms that are not known are left out, as in files from before there were any.
    const double value = cost.*coefficient.value;
    if (value == CostModel().*coefficient.value && value == 0 && coefficient.is_optional) continue;
    json[coefficient.key] = value;
  }
  for (const OptionalCoefficient& coefficient : kOptionalCoefficients) {
    if (cost.*coefficient.value) json[coefficient.key] = *(cost.*coefficient.value);
  }
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace weft
