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

constexpr std::array<Coefficient, 16> kCoefficients{{
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
}};

void check_keys(const JsonFields& fields) {
  std::vector<std::string> known{"schema", "name", "source", "num_layers"};
  std::vector<std::string> required = known;
  for (const Coefficient& coefficient : kCoefficients) {
    known.emplace_back(coefficient.key);
    if (!coefficient.is_optional) required.emplace_back(coefficient.key);
  }
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
}

}  // namespace

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
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace weft
