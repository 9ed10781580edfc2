#include "bench/harness/row.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace weft::bench {

double median(std::vector<double> samples) {
  WEFT_CHECK(!samples.empty(), "a median of nothing");
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
}

double share(const Row& row) {
  const double value = median(row.samples);
  const double limit = median(row.limits);
  return row.better == Better::kHigher ? value / limit : limit / value;
}

std::string to_json_line(const Row& row) {
  const double p50 = median(row.samples);
  const auto [least, most] = std::minmax_element(row.samples.begin(), row.samples.end());
  nlohmann::ordered_json json;
  json["name"] = row.name;
  json["value"] = p50;
  json["unit"] = row.unit;
  json["better"] = row.better == Better::kHigher ? "higher" : "lower";
  json["samples"] = row.samples.size();
  json["min"] = *least;
  json["p50"] = p50;
  json["max"] = *most;
  json["limit"] = nullptr;
  json["limit_name"] = nullptr;
  json["share"] = nullptr;
  if (!row.limits.empty()) {
    json["limit"] = median(row.limits);
    json["limit_name"] = row.limit_name;
    json["share"] = share(row);
  }
  for (const auto& [key, value] : row.counters) json[key] = value;
  return json.dump();
}

}  // namespace weft::bench
