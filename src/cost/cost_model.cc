#include "cost/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"

namespace weft {
namespace {

constexpr std::string_view kSchemaPrefix = "weft.cost.v";
constexpr std::string_view kSchema = "weft.cost.v1";

struct Coefficient {
  const char* key;
  double CostModel::* value;
  bool is_optional = false;
};

constexpr std::array<Coefficient, 10> kCoefficients{{
    {"attention_ns_per_pair", &CostModel::attention_ns_per_pair},
    {"linear_ns_per_token", &CostModel::linear_ns_per_token},
    {"fixed_ns", &CostModel::fixed_ns},
    {"hop_ns_per_token", &CostModel::hop_ns_per_token},
    {"hop_fixed_ns", &CostModel::hop_fixed_ns},
    {"backward_ratio", &CostModel::backward_ratio},
    {"kv_bytes_per_token", &CostModel::kv_bytes_per_token, true},
    {"activation_bytes_per_token", &CostModel::activation_bytes_per_token, true},
    {"offload_bytes_per_second", &CostModel::offload_bytes_per_second, true},
    {"host_bytes_per_rank", &CostModel::host_bytes_per_rank, true},
}};

// The parser would silently keep the last of two equal keys.
nlohmann::ordered_json parse_without_duplicates(const std::string& text, const std::string& where) {
  using Event = nlohmann::ordered_json::parse_event_t;
  std::set<std::string> keys;
  return nlohmann::ordered_json::parse(text, [&](int depth, Event event,
                                                 const nlohmann::ordered_json& parsed) {
    WEFT_USER_CHECK(depth != 1 || event != Event::key || keys.insert(parsed).second,
                    "cost file {}: key \"{}\" is there twice", where, parsed.get<std::string>());
    return true;
  });
}

void check_schema(const nlohmann::ordered_json& json, const std::string& where) {
  WEFT_USER_CHECK(json.is_object(), "cost file {}: expected a JSON object", where);
  WEFT_USER_CHECK(json.contains("schema") && json["schema"].is_string(),
                  "cost file {}: no \"schema\"; expected \"schema\": \"{}\"", where, kSchema);
  const auto schema = json["schema"].get<std::string>();
  if (schema == kSchema) return;
  WEFT_USER_CHECK(
      !schema.starts_with(kSchemaPrefix),
      "cost file {}: schema \"{}\" is another version than \"{}\", which this program reads; "
      "write the file again with this version, or use a newer program",
      where, schema, kSchema);
  throw_user_error("cost file {}: schema is \"{}\", expected \"{}\"", where, schema, kSchema);
}

void check_keys(const nlohmann::ordered_json& json, const std::string& where) {
  std::vector<std::string> known{"schema", "name", "source", "num_layers"};
  std::vector<std::string> required = known;
  for (const Coefficient& coefficient : kCoefficients) {
    known.emplace_back(coefficient.key);
    if (!coefficient.is_optional) required.emplace_back(coefficient.key);
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto nearest = nearest_name(key, known);
    throw_user_error("cost file {}: unknown key \"{}\"{}", where, key,
                     nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : "");
  }
  for (const std::string& key : required)
    WEFT_USER_CHECK(json.contains(key), "cost file {}: key \"{}\" is missing", where, key);
}

std::string read_name(const nlohmann::ordered_json& json, const char* key,
                      const std::string& where) {
  WEFT_USER_CHECK(json[key].is_string(), "cost file {}: \"{}\" must be a string", where, key);
  return json[key].get<std::string>();
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
  const std::string where = fmt::format("'{}'", path.string());
  const std::string text = read_text_file(path);
  nlohmann::ordered_json json;
  try {
    json = parse_without_duplicates(text, where);
  } catch (const nlohmann::json::exception& error) {
    throw_user_error("cost file {}: not JSON: {}", where, error.what());
  }
  check_schema(json, where);
  check_keys(json, where);
  CostModel cost;
  cost.name = read_name(json, "name", where);
  cost.source = read_name(json, "source", where);
  const auto& layers = json["num_layers"];
  WEFT_USER_CHECK(layers.is_number_integer() && std::abs(layers.get<double>()) <= 1e6,
                  "cost file {}: \"num_layers\" must be an integer, at most a million", where);
  cost.num_layers = layers.get<std::int32_t>();
  for (const Coefficient& coefficient : kCoefficients) {
    if (!json.contains(coefficient.key)) continue;
    WEFT_USER_CHECK(json[coefficient.key].is_number(), "cost file {}: \"{}\" must be a number",
                    where, coefficient.key);
    cost.*coefficient.value = json[coefficient.key].get<double>();
  }
  check_values(cost, where);
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
    // Terms of offload that are not known are left out, as in files from before there were any.
    const double value = cost.*coefficient.value;
    if (value == CostModel().*coefficient.value && value == 0 && coefficient.is_optional) continue;
    json[coefficient.key] = value;
  }
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace weft
